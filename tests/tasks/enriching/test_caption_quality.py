"""What is found wrong with a model's description."""

from dataclasses import replace

import pytest

from backends.models.languages import Py3LangId
from schemas.corpus.models import EntryKind
from schemas.models import MARKING, REFUSING, Description, Flag, is_refused
from tasks.enriching.caption_quality import flags, length, missing_input, words_of
from tasks.enriching.prompts import Surroundings, presets, read_prompt

FIGURE = presets()["figure"]
PAGE = presets()["page"]
OCR = presets()["ocr-caption"]
LANGUAGES = Py3LangId()

GOOD = (
    "A line drawing of the pump's pressure relief valve, seen from the side. The valve body (1) holds a spring (2) between the "
    "adjusting screw (3) and the seat (4); the outlet to the drain is at the lower right. An arrow shows that the screw "
    "is turned clockwise to raise the opening pressure, which is marked 6 bar."
)
AROUND = Surroundings(
    caption="Figure 3: The pressure relief valve",
    section="Maintenance",
    before="Close the inlet before you open the valve, and wait until the gauge shows no pressure.",
    after="Then turn the screw by a quarter at a time.",
    words="1 2 3 4 MAX 6 bar",
    title="Water pump",
)


def described(text: str, **fields: object) -> Description:
    return replace(Description("ab" * 32, text, "scripted", 1, 10, 10), **fields)  # type: ignore[arg-type]


def found(text: str, around: Surroundings = AROUND, prompt: str = "figure", **fields: object) -> set[Flag]:
    return set(flags(described(text, **fields), presets()[prompt], around, languages=LANGUAGES))


def test_nothing_is_wrong_with_a_good_one() -> None:
    assert flags(described(GOOD), FIGURE, AROUND, languages=LANGUAGES) == ()
    assert flags(described("Pressure relief valve"), OCR, AROUND, languages=LANGUAGES) == ()


GOOD_ONES = {
    "de": (
        "Die Strichzeichnung zeigt das Überdruckventil der Pumpe von der Seite, mit Feder, Stellschraube und Ventilsitz.",
        "Schließen Sie zuerst den Zulauf und warten Sie, bis das Manometer keinen Druck mehr anzeigt.",
    ),
    "fr": (
        "Dessin de la soupape de sûreté de la pompe, vue de côté, avec le ressort et la vis de réglage.",
        "Fermez d'abord l'arrivée d'eau et attendez que le manomètre n'indique plus aucune pression.",
    ),
    "ja": (
        "ポンプの安全弁を横から見た図。ばね、調整ねじ、弁座が示されている。",
        "最初に給水を止め、圧力計の圧力がなくなるまで待ってください。",
    ),
    "zh": ("水泵安全阀的侧面示意图，标出了弹簧、调节螺钉和阀座的位置。", "首先关闭进水口，等到压力表不再显示压力为止。"),
    "ru": (
        "Чертёж предохранительного клапана насоса, вид сбоку, с пружиной и регулировочным винтом.",
        "Сначала закройте подачу воды и подождите, пока манометр не покажет отсутствие давления.",
    ),
    "ar": (
        "رسم تخطيطي لصمام الأمان في المضخة من الجانب مع النابض وبرغي الضبط.",
        "أغلق مدخل الماء أولا وانتظر حتى لا يظهر المقياس أي ضغط.",
    ),
    "th": ("ภาพลายเส้นของวาล์วนิรภัยของปั๊มน้ำ มองจากด้านข้าง แสดงสปริงและสกรูปรับ", "ปิดทางน้ำเข้าก่อนแล้วรอจนกว่ามาตรวัดจะไม่แสดงแรงดัน"),
    "ko": (
        "펌프의 안전 밸브를 옆에서 본 그림으로 스프링과 조절 나사가 표시되어 있다.",
        "먼저 급수를 잠그고 압력계에 압력이 없을 때까지 기다리십시오.",
    ),
}


@pytest.mark.parametrize("language", GOOD_ONES)
def test_nor_in_any_language_where_the_document_is_in_it(language: str) -> None:
    text, beside = GOOD_ONES[language]
    assert found(text, Surroundings(before=beside)) == set()
    assert found(text, Surroundings(language=language)) == set()


@pytest.mark.parametrize("language", GOOD_ONES)
def test_another_language_than_the_documents(language: str) -> None:
    text, beside = GOOD_ONES[language]
    assert found(text) == {Flag.WRONG_LANGUAGE}
    assert found(GOOD, Surroundings(before=beside)) == {Flag.WRONG_LANGUAGE}
    assert Flag.WRONG_LANGUAGE in found(text, replace(AROUND, language="en"))


def test_another_language_than_is_named() -> None:
    german, _ = GOOD_ONES["de"]
    assert found(GOOD, replace(AROUND, language="de")) == {Flag.WRONG_LANGUAGE}
    assert found(german, replace(AROUND, language="de-AT")) == set(), "what is named counts more than the document"


@pytest.mark.parametrize(
    ("text", "around"),
    [
        ("XLR-200 M8x20 DIN 912", AROUND),
        ("Ventil", AROUND),
        (GOOD, Surroundings()),
        (GOOD, Surroundings(caption="図3")),
        ("Schaltplan: VCC, GND, SDA, SCL", AROUND),
        (f"{GOOD} The button is labelled 決定.", AROUND),
    ],
)
def test_too_little_says_nothing_of_a_language(text: str, around: Surroundings) -> None:
    assert Flag.WRONG_LANGUAGE not in found(text, around)


def test_without_a_detector_another_script_is_noticed_all_the_same() -> None:
    assert flags(described(GOOD_ONES["zh"][0]), FIGURE, AROUND) == (Flag.WRONG_LANGUAGE,)
    assert flags(described(GOOD_ONES["de"][0]), FIGURE, AROUND) == ()


@pytest.mark.parametrize("text", ["", " \n", "...", "```\n```", "—", "* * *"])
def test_an_empty_answer(text: str) -> None:
    assert found(text) == {Flag.EMPTY}


def test_a_failed_call_is_nothing_else() -> None:
    assert found("", failure="the endpoint timed out") == {Flag.FAILED}


def test_an_answer_that_reached_its_limit_is_used() -> None:
    raised_flags = flags(described(GOOD, complete=False), FIGURE, AROUND, languages=LANGUAGES)
    assert raised_flags == (Flag.CUT_OFF,)
    assert not is_refused(raised_flags)


@pytest.mark.parametrize(
    ("text", "prompt", "flag"),
    [
        ("Relief valve", "ocr-caption", None),
        ("Relief valve of the water pump", "ocr-caption", None),
        ("Valve", "ocr-caption", Flag.TOO_SHORT),
        ("The pressure relief valve of the pump", "ocr-caption", Flag.TOO_LONG),
        ("A valve.", "figure", Flag.TOO_SHORT),
    ],
)
def test_length_is_what_the_prompt_asks_for(text: str, prompt: str, flag: Flag | None) -> None:
    assert found(text, prompt=prompt) == ({flag} if flag else set())


def test_length_in_scripts_without_spaces() -> None:
    assert 8 <= length("水泵安全阀的侧面示意图，标出了弹簧") <= 14
    assert found("水泵安全阀", Surroundings(), "ocr-caption") == set()
    assert found("阀", Surroundings(), "ocr-caption") == {Flag.TOO_SHORT}
    assert found("水泵安全阀的侧面示意图标出了弹簧和调节螺钉", Surroundings(), "ocr-caption") == {Flag.TOO_LONG}
    assert words_of("WP-200 don't 12.5 図は") == ["wp-200", "don't", "12.5", "図", "は"]


@pytest.mark.parametrize(
    "text",
    [
        f"{GOOD} " + "The valve is connected to the pipe. " * 6,
        "A photograph of " + "the pump and " * 10,
        "valve " * 30,
        "A diagram. " + " ".join(f"The terminal {number} is connected to the relay." for number in range(12)),
        "压力表" * 20,
        "A table of " + " ".join(f"{a} {b}" for a in ("on", "off", "auto") for b in ("low", "high")) * 15,
    ],
)
def test_a_loop(text: str) -> None:
    assert Flag.REPETITION in found(text)


@pytest.mark.parametrize(
    "text",
    [
        "A chart with the axis 0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100 and bars for spring, summer, autumn and winter.",
        "A row of seven switches. From left to right: on, off, on, off, on, on, off. The lamp above them is lit.",
        "The terminals L1, L2, L3, N and PE are connected to the terminals U1, V1, W1, N and PE of the motor.",
    ],
)
def test_no_loop(text: str) -> None:
    assert found(text) == set()


@pytest.mark.parametrize("name", list(presets()))
def test_an_answer_that_repeats_its_prompt(name: str) -> None:
    prompt = presets()[name]
    lines = [line for line in prompt.instructions.splitlines() if len(line) > 60]
    for line in lines:
        assert Flag.PROMPT_ECHO in flags(described(f"{GOOD} {line}"), prompt, AROUND)
    assert Flag.PROMPT_ECHO in flags(described(prompt.render(AROUND)), prompt, AROUND)


def test_what_the_document_says_may_be_repeated() -> None:
    assert Flag.PROMPT_ECHO not in found(f"{AROUND.caption}. {AROUND.before} {AROUND.after}")
    short = read_prompt("mine", "Describe the picture.\nCaption: $caption")
    assert flags(described("Describe the picture. A valve."), short, AROUND) == (Flag.PROMPT_ECHO,)
    assert flags(described("The picture shows a valve."), short, AROUND) == ()


@pytest.mark.parametrize("mark", ["<|im_end|>", "<think>", "[INST]", "<start_of_turn>"])
def test_marks_of_a_chat_are_an_echo(mark: str) -> None:
    assert Flag.PROMPT_ECHO in found(f"{mark} {GOOD}")


REFUSALS = [
    "I'm sorry, but I can't assist with that request.",
    "I’m sorry, I cannot help with identifying people in this image, but a valve may be there.",
    "Sorry, I am unable to view the image.",
    "I cannot see the image you have uploaded, so a description isn't possible.",
    "As an AI language model, I don't have the ability to look at pictures.",
    "Unfortunately, I do not have access to the figure.",
    "No image was provided. Please upload the image so that I can describe it.",
    "Es tut mir leid, aber ich kann das Bild nicht beschreiben.",
    "Leider kann ich das Bild nicht erkennen.",
    "Het spijt me, maar ik kan deze afbeelding niet zien.",
    "Je suis désolé, mais je ne peux pas décrire cette image.",
    "Lo siento, pero no puedo ayudar con esta imagen.",
    "Desculpe, mas não posso ajudar com isso.",
    "Mi dispiace, ma non posso descrivere questa immagine.",
    "Przepraszam, ale nie mogę opisać tego obrazu.",
    "Omlouvám se, ale tento obrázek nemohu popsat.",
    "Извините, но я не могу описать это изображение.",
    "Вибачте, але я не можу описати це зображення.",
    "Tyvärr kan jag inte se bilden som du har skickat.",
    "Beklager, men jeg kan ikke beskrive dette billede.",
    "Valitettavasti en voi kuvailla tätä kuvaa.",
    "Sajnálom, de nem tudok segíteni ezzel a képpel.",
    "Üzgünüm, bu görüntüyü açıklayamıyorum.",
    "Λυπάμαι, αλλά δεν μπορώ να περιγράψω αυτή την εικόνα.",
    "Xin lỗi, tôi không thể mô tả hình ảnh này.",
    "Maaf, saya tidak dapat menjelaskan gambar ini.",
    "抱歉，我无法查看这张图片。",
    "作为一个人工智能语言模型，我没有视觉能力。",
    "申し訳ありませんが、この画像を説明することはできません。",
    "죄송하지만 이 이미지를 설명할 수 없습니다.",
    "عذرًا، لا أستطيع وصف هذه الصورة.",
    "متأسفم، نمی‌توانم این تصویر را توصیف کنم.",
    "מצטער, אני לא יכול לתאר את התמונה הזאת.",
    "क्षमा करें, मैं इस चित्र का वर्णन नहीं कर सकता।",
    "ขออภัย ฉันไม่สามารถอธิบายภาพนี้ได้",
]


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal(text: str) -> None:
    assert Flag.REFUSAL in found(text, Surroundings())


@pytest.mark.parametrize(
    "text",
    [
        "A dialogue box with the message 'Sorry, the file could not be opened.' and the button OK.",
        "A screenshot of the page 'I cannot log in', with the fields user name and password.",
        "The page describes what to do if the pump does not start: unfortunately the fuse can't be seen from outside.",
        f"{GOOD} A note at the bottom says: sorry, we cannot help you with warranty claims.",
        "Ein Fehlerfenster mit dem Text: Leider ist die Datei nicht lesbar.",
        "Please attach the picture frame to the wall with the two screws, as the arrows show.",
    ],
)
def test_no_refusal(text: str) -> None:
    assert Flag.REFUSAL not in found(text, Surroundings())


@pytest.mark.parametrize(
    "text",
    [
        f"**Figure 3** {GOOD}",
        f"## Description\n{GOOD}",
        f"{GOOD}\n```\ncode\n```",
        f"{GOOD}\n| No | Part |\n| --- | --- |\n| 1 | Body |",
        f"{GOOD} See [the manual](https://example.org/manual).",
        f"<p>{GOOD}</p>",
        f"{GOOD}\n- body\n- spring",
        f"{GOOD}\n1. Close the inlet.\n2. Turn the screw.",
    ],
)
def test_mark_up_is_marked_and_used(text: str) -> None:
    raised_flags = found(text)
    assert raised_flags == {Flag.MARKDOWN}
    assert not is_refused(raised_flags)


@pytest.mark.parametrize(
    "text",
    [
        f"{GOOD} The label reads x < y > z.",
        f"{GOOD}\n- 5 bar",
        f"{GOOD} The file is __init__.py, the rate 3*4*5.",
        f"Part # 7. {GOOD}",
    ],
)
def test_no_mark_up(text: str) -> None:
    assert found(text) == set()


def test_a_page_is_a_list_of_short_lines() -> None:
    page = "- Purpose: how to adjust the relief valve.\n- Visible: the valve, the screw (3), 6 bar.\n- Turn the screw.\n- Page 17"
    assert found(page, replace(AROUND, page="17", words=""), "page") == set()
    assert found(page, replace(AROUND, page="7", words=""), "page") == {Flag.PAGE_NUMBER_MISSING}
    assert found(page, replace(AROUND, page="", words=""), "page") == set(), "no number is printed"
    assert found(f"# Valve\n{page}", replace(AROUND, words=""), "page") == {Flag.MARKDOWN}
    assert found("", prompt="page") == {Flag.EMPTY}, "a blank page"
    assert found("- Front matter, page XIV, with the table of contents.", Surroundings(page="xiv"), "page") == set()


@pytest.mark.parametrize(
    "piece", ["\n", " ", ".", "-", "|", "*", "[", "<b ", "---|", " \n", "1,", "\n #", "sorry I ", "9", "阀"]
)
def test_whatever_a_model_goes_on_with_is_judged_at_once(piece: str) -> None:
    text = f"{GOOD}\n{piece * 40_000}x"
    assert set(flags(described(text), FIGURE, replace(AROUND, words=text), languages=LANGUAGES)) <= set(Flag)


@pytest.mark.parametrize(
    ("words", "text", "missing"),
    [
        ("P1 12.5 kW 400 V 1450 rpm 37", "A name plate: 12,5 kW, 400 V, 1450 rpm.", False),
        ("P1 12.5 kW 400 V 1450 rpm 37", "The name plate of the motor that drives the pump.", True),
        ("0 20 40 60 80 100", "A bar chart of sales by quarter.", False),
        ("0 20 40 60 80 100 37 93 58", "A bar chart of sales by quarter.", True),
        ("1 2 3 4 5 6 7", "A drawing of the valve with its parts.", False),
        ("1,024 2 048 65536 17", "Sizes of 1024, 2048 and 65.536 bytes.", False),
        ("", "A drawing of the valve with its parts.", False),
        ("M8x20 DIN912 WP200", "A screw and its data sheet beside it.", False),
    ],
)
def test_numbers_that_were_read_and_are_missing(words: str, text: str, missing: bool) -> None:
    raised_flags = found(text, replace(AROUND, words=words))
    assert raised_flags == ({Flag.NUMBERS_MISSING} if missing else set())
    assert not is_refused(raised_flags)


@pytest.mark.parametrize(
    ("words", "kind", "flag"),
    [
        ("", EntryKind.LLM, Flag.NO_TEXT),
        (" — \n", EntryKind.LLM, Flag.NO_TEXT),
        ("OK", EntryKind.LLM, None),
        ("", EntryKind.VLM, None),
    ],
)
def test_a_model_that_reads_words_is_not_asked_where_there_are_none(words: str, kind: str, flag: Flag | None) -> None:
    assert missing_input(kind, Surroundings(words=words)) is flag  # type: ignore[arg-type]


def test_each_flag_either_refuses_or_marks_and_they_come_in_one_order() -> None:
    assert frozenset(Flag) == MARKING | REFUSING
    assert not MARKING & REFUSING
    raised_flags = flags(
        described("**Ventil Ventil**", complete=False), OCR, replace(AROUND, language="en"), languages=LANGUAGES
    )
    assert list(raised_flags) == [flag for flag in Flag if flag in raised_flags]
