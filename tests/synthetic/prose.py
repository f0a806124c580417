"""Words for synthetic manuals: sentences that could stand in a real one, in four languages."""

import random
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Language:
    """How a manual speaks. ``gap`` stands between words; ``{a}`` to ``{d}`` in templates are filled with parts."""

    parts: tuple[str, ...]
    sentences: tuple[str, ...]
    chapters: tuple[str, ...]
    sections: tuple[str, ...]
    captions: tuple[str, ...]
    figure: str
    mention: tuple[str, ...]
    far: tuple[str, ...]
    table: str
    torque: str
    fact: str
    ask: str
    show: str
    fonts: tuple[str, str, str]
    gap: str = " "
    bare: str = "{word}: {title}"
    numbered: str = "{word} {number}: {title}"


def _listed(names: str) -> tuple[str, ...]:
    return tuple(names.split(","))


MACHINES = ("Lathe", "Mill", "Press", "Saw", "Grinder", "Robot")

ENGLISH = Language(
    parts=_listed(
        "feed pump,drive motor,relief valve,shaft seal,ball bearing,filter housing,limit switch,sensor bracket,spray nozzle,"
        "head gasket,clamp lever,spindle nose,tool changer,coolant tank,control cabinet,lift table,guide rail,ball screw,"
        "belt tensioner,oil gauge,door interlock,chip conveyor,air dryer,rotary encoder,brake disc,coupling sleeve"
    ),
    sentences=(
        "Loosen the {a} and turn the {b} until it rests against the {c}.",
        "The {a} must be cleaned before the {b} is mounted again.",
        "If the {a} makes a noise, check whether the {b} still moves freely and replace the {c} where it does not.",
        "A worn {a} lets the {b} run hot, which shortens the life of the {c} considerably.",
        "Never open the {a} while the {b} is under pressure.",
        "Wipe the {a} with a dry cloth, then grease the {b} as well as the {c}.",
        "After every service the {a} has to be aligned with the {b} once more.",
        "Most faults of the {a} are caused by a {b} that was tightened too firmly.",
        "The {a} and the {b} are delivered as a set and should not be mixed with those of another machine.",
        "Keep the old {a} until the {b} has been tried under full load for at least an hour.",
        "On machines with a second {a} the same steps apply to the {b} on the other side.",
        "Two screws hold the {a}; a third one keeps the {b} from turning.",
    ),
    chapters=("Installing the {a}", "Operating the {a}", "Maintenance of the {a}", "Repairing the {a}", "The {a} in detail"),
    sections=("Removing the {a}", "Checking the {a}", "Setting up the {a}", "Spare parts for the {a}", "Faults of the {a}"),
    captions=("Section through the {a}", "The {a} seen from the side of the {b}", "Position of the {a} and the {b}",
              "Behaviour of the {a} under load"),
    figure="Figure",
    mention=("Figure {n} shows where the {a} sits.", "As Figure {n} shows, the {a} is held by the {b}.",
             "The parts are named in Figure {n}."),
    far=("Compare this with Figure {n} (the {a}).", "The {a} itself is shown in Fig. {n}."),
    table="Table",
    torque="Torques of the {a}",
    fact="The {a} {code} takes a torque of {value} Nm.",
    ask="What torque does the {a} {code} take?",
    show="Show me: {title}",
    fonts=("helv", "hebo", "heit"),
)  # fmt: skip

GERMAN = Language(
    parts=_listed(
        "Pumpe,Welle,Dichtung,Kupplung,Spindel,Bremse,Leitung,Klemme,Schraube,Abdeckung,Steuerung,Führung,Düse,Feder"
    ),
    sentences=(
        "Lösen Sie die {a} und drehen Sie die {b}, bis sie an der {c} anliegt.",
        "Die {a} muss gereinigt werden, bevor die {b} wieder montiert wird.",
        "Öffnen Sie die {a} niemals, solange die {b} unter Druck steht.",
        "Eine verschlissene {a} lässt die {b} heiß laufen und verkürzt die Lebensdauer der {c} erheblich.",
        "Nach jeder Wartung ist die {a} erneut an der {b} auszurichten.",
        "Bei Maschinen mit einer zweiten {a} gelten dieselben Schritte für die {b} auf der anderen Seite.",
    ),
    chapters=("Einbau der {a}", "Betrieb der {a}", "Wartung der {a}"),
    sections=("Ausbau der {a}", "Prüfung der {a}", "Einstellung der {a}", "Störungen der {a}"),
    captions=("Schnitt durch die {a}", "Lage der {a} und der {b}", "Verhalten der {a} unter Last"),
    figure="Abb.",
    mention=("Abb. {n} zeigt die Lage der {a}.", "Die Teile sind in Abb. {n} benannt."),
    far=("Vergleichen Sie dazu Abb. {n} (die {a}).",),
    table="Tabelle",
    torque="Drehmomente der {a}",
    fact="Die {a} {code} wird mit {value} Nm angezogen.",
    ask="Mit welchem Drehmoment wird die {a} {code} angezogen?",
    show="Zeige mir: {title}",
    fonts=("helv", "hebo", "heit"),
    bare="Abbildung: {title}",
)

CHINESE = Language(
    parts=_listed("主轴,水泵,阀门,轴承,密封圈,电机,滤芯,开关,喷嘴,导轨,油箱,制动器"),
    sentences=(
        "松开{a}并转动{b}，直到它靠紧{c}为止。",
        "重新安装{b}之前必须先清洁{a}。",
        "{b}带压时切勿打开{a}。",
        "磨损的{a}会使{b}过热，并大大缩短{c}的使用寿命。",
        "每次保养之后都要重新校准{a}和{b}。",
    ),
    chapters=("{a}的安装", "{a}的维护"),
    sections=("拆卸{a}", "检查{a}", "调整{a}"),
    captions=("{a}的剖面", "{a}和{b}的位置"),
    figure="图",
    mention=("{a}的位置见图 {n}。", "各零件的名称见图 {n}。"),
    far=("{a}另见图 {n}。",),
    table="表",
    torque="{a}的拧紧力矩",
    fact="{a} {code} 的拧紧力矩为 {value} Nm。",
    ask="{a} {code} 的拧紧力矩是多少？",
    show="请显示：{title}",
    fonts=("china-s", "china-s", "china-s"),
    gap="",
    bare="图：{title}",
    numbered="{word} {number} {title}",
)

HEBREW = Language(
    parts=_listed("המשאבה,המנוע,השסתום,האטם,המסנן,המתג,החיישן,הנחיר,הגלגל,הציר,המכסה,הידית,המיכל,הבורג"),
    sentences=(
        "יש לשחרר את {a} ולסובב את {b} עד הסוף",
        "יש לנקות את {a} לפני הרכבה חוזרת של {b}",
        "אין לפתוח את {a} כאשר {b} נמצא תחת לחץ",
        "לאחר כל טיפול יש לכוון מחדש את {a} ואת {b}",
        "אם נשמע רעש יש לבדוק את {a} ולהחליף את {b} במידת הצורך",
    ),
    chapters=("התקנה של {a}", "תחזוקה של {a}"),
    sections=("הסרה של {a}", "בדיקה של {a}", "כוונון של {a}"),
    captions=("מבט על {a}",),
    figure="איור",
    mention=("{a} מוצג באיור {n}",),
    far=("ראו גם איור {n}",),
    table="טבלה",
    torque="מומנטים של {a}",
    fact="יש להדק את {a} {code} במומנט של {value}",
    ask="באיזה מומנט יש להדק את {a} {code}?",
    show="הצג: {title}",
    fonts=("hebrew", "hebrew", "hebrew"),
)

LANGUAGES = {"en": ENGLISH, "de": GERMAN, "zh": CHINESE, "he": HEBREW}

LISTINGS = (
    "G21 G90 G54",
    "G0 X{a} Y{b} Z5",
    "M3 S{a}00",
    "G1 Z-{b} F{a}0",
    "G2 X{a} Y{b} I10 J0",
    "(probe the corner, then set the offset)",
    "#100 = [#5061 + {a}.{b}]",
    "o100 while [#100 LT {a}]",
    "o100 endwhile",
    "M5 M9 M30",
)


def fill(template: str, pick: random.Random, language: Language, **values: str) -> str:
    """Fill a template with parts, none twice, and with what else is given."""
    part_names = dict(zip("abcd", pick.sample(language.parts, 4), strict=True))
    return template.format(**{**part_names, **values})


def sentences(pick: random.Random, language: Language, count: int) -> list[str]:
    """Return sentences, no two neighbours from the same template."""
    order = [pick.sample(language.sentences, len(language.sentences)) for _ in range(count // len(language.sentences) + 1)]
    return [fill(template, pick, language) for template in [candidate for round_ in order for candidate in round_][:count]]


def words(text: str, language: Language) -> list[str]:
    """Cut a text where a line may break."""
    if language.gap:
        return text.split()
    return re.findall(r"[\x21-\x7e]+(?: [\x21-\x7e]+)* ?|.[，。、：；）]*", text)
