"""Recognise refusals of models in many languages."""

import regex

_WITHIN = 160
"""Characters within which a refusal begins. Of 35,438 passages in 34 languages one has a false alarm."""

_GAP = r"[^.!?。！？।؟\n]{0,80}?"
"""Text between an excuse and an inability, in one sentence."""

_PICTURE = r"(?:image|picture|photo|figure|screenshot|attachment|document|page)s?"

_EXCUSES: dict[str, tuple[str, str]] = {
    "en": (
        r"\b(?:sorry|apologi[sz]e|apologies|unfortunately|regret)\b",
        r"\b(?:I|we)\b[^.!?\n]{0,20}?(?:\b(?:can(?:no|['’])?t|unable|not able|won['’]?t)\b|\bdo(?:n['’]t| not) have\b)",
    ),
    "de": (r"\b(?:tut mir leid|leider|entschuldig\w+|bedau[er]+e)\b", r"\bich\b[^.!?\n]{0,60}?\b(?:nicht|kein\w*)\b"),
    "nl": (r"\b(?:het spijt me|sorry|helaas)\b", r"\bik\b[^.!?\n]{0,60}?\b(?:niet|geen)\b"),
    "fr": (r"(?:désolée?|malheureusement|je regrette)\b", r"\bje\b[^.!?\n]{0,30}?\b(?:pas|incapable)\b"),
    "es": (r"\b(?:lo siento|disculp[ae]|lamentablemente|lamento)\b", r"\bno (?:puedo|soy capaz|me es posible|tengo)\b"),
    "pt": (
        r"\b(?:desculp[ae]|lamento|infelizmente|sinto muito)\b",
        r"\bnão (?:posso|consigo|sou capaz|me é possível|tenho)\b",
    ),
    "it": (r"\b(?:mi dispiace|purtroppo|spiacente)\b", r"\bnon (?:posso|riesco|sono in grado|ho)\b"),
    "ca": (r"\b(?:ho sento|malauradament)\b", r"\bno (?:puc|soc capaç|tinc)\b"),
    "ro": (r"(?:îmi pare rău|din păcate)\b", r"\bnu (?:pot|sunt capabil|am)\b"),
    "pl": (r"\b(?:przepraszam|przykro mi|niestety)\b", r"\bnie (?:mogę|jestem w stanie|widzę|potrafię)\b"),
    "cs": (r"\b(?:omlouvám se|bohužel|promiňte)\b", r"\b(?:nemohu|nemůžu|nedokážu|nejsem schop\w+|nevidím)\b"),
    "ru": (r"\b(?:извините|к сожалению|простите|прошу прощения)\b", r"\bне (?:могу|вижу|в состоянии|имею)\b"),
    "uk": (r"\b(?:вибачте|на жаль|перепрошую)\b", r"\bне (?:можу|бачу|маю)\b"),
    "sv": (r"\b(?:tyvärr|förlåt|beklagar|ursäkta)\b", r"\bjag\b[^.!?\n]{0,40}?\b(?:inte|ingen)\b"),
    "da": (r"\b(?:beklager|desværre|dessverre|undskyld)\b", r"\bjeg\b[^.!?\n]{0,40}?\b(?:ikke|ingen)\b"),
    "fi": (r"\b(?:pahoittelen|valitettavasti|anteeksi)\b", r"\ben (?:voi|pysty|näe|osaa)\b"),
    "hu": (r"\b(?:sajnálom|sajnos|elnézést)\b", r"\bnem (?:tudok|tudom|látom|áll módomban)\b"),
    "tr": (r"\b(?:üzgünüm|maalesef|özür dilerim)\b", r"(?:amıyorum|emiyorum|amam|emem)\b"),
    "el": (r"(?:λυπάμαι|συγγνώμη|δυστυχώς)", r"\bδεν (?:μπορώ|έχω|είμαι)\b"),
    "vi": (r"\b(?:xin lỗi|rất tiếc)\b", r"\bkhông (?:thể|có)\b"),
    "id": (r"\b(?:maaf|sayangnya)\b", r"\bsaya\b[^.!?\n]{0,20}?\btidak (?:bisa|dapat|mampu)\b"),
    "zh": (r"(?:抱歉|对不起|對不起|很遗憾|很遺憾)", r"(?:无法|不能|無法|看不到)"),
    "ja": (r"(?:申し訳|すみません|ごめんなさい|残念ながら)", r"(?:できません|できかね|ません)"),
    "ko": (r"(?:죄송|미안|유감)", r"(?:수 없습니다|수 없어요|못합니다)"),
    "ar": (r"(?:عذر|آسف|للأسف|أعتذر)", r"(?:لا أستطيع|لا يمكنني|لست قادر|غير قادر)"),
    "fa": (r"(?:متأسف|متاسف|ببخشید|پوزش)", r"نمی[\u200c ]?توانم"),
    "he": (r"(?:מצטער|סליחה|לצערי)", r"(?:לא יכול|לא ניתן|לא אוכל|איני)"),
    "hi": (r"(?:क्षमा|खेद|माफ़)", r"(?:नहीं|असमर्थ)"),
    "th": (r"(?:ขออภัย|ขอโทษ|เสียใจ)", r"ไม่สามารถ"),
}
"""By language: an excuse, and an inability in the same sentence."""

_OUTRIGHT = (
    rf"\bI(?:['’]m|\s+am)?\s+(?:can(?:no|['’])?t|unable to|not able to)\s+(?:\w+\s+){{0,2}}?(?:see|view|access|analy[sz]e|"
    rf"describe|assist|help|identify|comply|fulfil+|interpret|process)\b[^.!?\n]{{0,40}}?\b(?:{_PICTURE}|this|that|with|request)\b",
    r"\bas an? (?:AI|artificial intelligence|(?:large )?language model|text-based (?:AI|model|assistant))\b",
    rf"\bno {_PICTURE} (?:was|is|were|has been|have been|seems?|appears?)\b[^.!?\n]{{0,20}}?\b(?:provided|attached|uploaded)\b",
    rf"\bplease (?:provide|upload|share|attach|send) (?:me )?(?:the|an?|your|that) (?:\w+ )?{_PICTURE}\b"
    r"[^.!?\n]{0,40}?\b(?:describe|assist|help|I|me)\b",
    r"\bich kann (?:das|dieses|ihnen|dir|dabei)\b[^.!?\n]{0,60}?\bnicht (?:sehen|helfen|beschreiben|erkennen|beantworten)",
    r"\bals (?:KI|künstliche Intelligenz|Sprachmodell)\b",
    r"\bals (?:een )?(?:AI|taalmodel)\b",
    r"\bje ne (?:peux|puis|suis) pas\b[^.!?\n]{0,30}?\b(?:voir|aider|décrire|analyser|capable|mesure)\b",
    r"\ben tant qu['’](?:IA|intelligence artificielle)\b|\ben tant que modèle de langage\b",
    r"\bno puedo (?:ver|ayudar|describir|analizar|asistir)\w*\b",
    r"\bcomo (?:una )?(?:IA|inteligencia artificial|modelo de lenguaje)\b",
    r"\bnão (?:posso|consigo) (?:ver|ajudar|descrever|analisar)\b|\bcomo (?:um )?modelo de linguagem\b",
    r"\bnon (?:posso|sono in grado di) (?:vedere|aiutar|descrivere|analizzare)\w*|\bcome modello linguistico\b",
    r"\bкак (?:ИИ|искусственный интеллект|языковая модель)\b",
    r"作为(?:一个|一名)?(?:AI|人工智能|语言模型)|我(?:无法|不能|無法|看不到)(?:直接)?(?:查看|看到|识别|描述)",
    r"AI(?:として|アシスタント|言語モデル)",
    r"AI(?:로서| 언어 모델)",
)
"""Refusals without an excuse: an inability to see or help, a self-description, a request for the picture."""

_REFUSAL = regex.compile(
    "|".join([*(f"(?:{excuse}){_GAP}(?:{inability})" for excuse, inability in _EXCUSES.values()), *_OUTRIGHT]),
    regex.IGNORECASE,
)


def refuses(text: str) -> bool:
    """Return whether a text begins with a refusal."""
    refusal = _REFUSAL.search(text[: 2 * _WITHIN])
    return refusal is not None and refusal.start() <= _WITHIN
