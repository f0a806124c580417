from bench.cells import tables_in

LATEX = (
    r"\begin{tabular}{|l|r|} \hline A & \multicolumn{2}{c}{B \& C} \\ "
    r"\hline 1 & \begin{tabular}{l} 2 \\ 3 \end{tabular} \end{tabular}"
)
HTML = "<table><tr><th>A</th><td colspan=2>B</td></tr></table>"
MARKDOWN = "| A | B |\n|---|---|\n| 1 | 2 |"


def test_tables_are_read_from_latex_html_and_markdown() -> None:
    tables = [
        [[" ".join(cell.split()) for cell in row] for row in table] for table in tables_in(f"{LATEX}\n{HTML}\n{MARKDOWN}")
    ]
    assert tables == [[["A", r"B \& C"], ["1", "2 3"]], [["A", "B"]], [["A", "B"], ["1", "2"]]]
