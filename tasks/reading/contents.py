"""Build a document's evidence tree, and print it as a table of contents.

Source: "OMG-QA" (evidence trees; its Figure 2 shows the printed form).
"""

from collections import defaultdict
from collections.abc import Sequence

from schemas.documents import Block, BlockKind, Node, NodeKind, PlacedFigure, Placement, Role, StructuredDocument
from schemas.tags import restore, strip
from schemas.text import same_title
from tasks.tables.mark_up import caption_of


def build_tree(document: StructuredDocument) -> list[Node]:
    """Return a document's evidence tree: sections, with paragraphs, tables and figures as leaves.

    A figure's caption is its title, not a leaf; icons in a line of text belong to the text. Margins are left out.

    Returns:
        The nodes in reading order, each after its parent. Ids count from 1.
    """
    tree = _Tree()
    blocks = {block.order: block for block in document.blocks}
    figures_of: dict[int, list[PlacedFigure]] = defaultdict(list)
    for figure in document.figures:
        if figure.placement.role is Role.CONTENT or blocks[figure.block].kind is BlockKind.FIGURE:
            figures_of[figure.block].append(figure)
    for block in document.blocks:
        if block.kind is BlockKind.MARGIN:
            continue
        is_title = tree.enter(block)
        if block.kind is BlockKind.TABLE:
            tree.add(NodeKind.TABLE, block, caption_of(block))
        elif block.kind is not BlockKind.FIGURE and block.placement is None and not is_title and strip(block.text):
            tree.add(NodeKind.TEXT, block)
        for figure in figures_of[block.order]:
            tree.add(NodeKind.IMAGE, block, figure.caption, figure.placement)
    return tree.nodes


def depths(nodes: Sequence[Node]) -> dict[int, int]:
    """Return the depth of each node by its id; 0 without a parent."""
    depth_by_node: dict[int, int] = {}
    for node in nodes:
        depth_by_node[node.node_id] = 0 if node.parent_id is None else depth_by_node[node.parent_id] + 1
    return depth_by_node


def print_contents(nodes: Sequence[Node]) -> str:
    """Return an evidence tree as an indented table of contents: a line per section, ``[table]`` or ``[image]``, with its id."""
    depth = depths(nodes)
    return "\n".join(
        f"{'  ' * depth[node.node_id]}- {_mark(node)}{title_of(node)} [{node.node_id}]"
        for node in nodes
        if node.kind is not NodeKind.TEXT
    )


def title_of(node: Node) -> str:
    """Return a node's name in the contents, in the document's own words."""
    return restore(node.title) or f"without a caption, page {node.page}"


def _mark(node: Node) -> str:
    return "" if node.kind is NodeKind.SECTION else f"[{node.kind}] "


class _Tree:
    """The tree so far, and the open sections at its end."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._open: list[Node] = []

    def enter(self, block: Block) -> bool:
        """Open the sections of a block; return whether the block is a section's heading."""
        path = block.section_path
        is_title = block.kind is BlockKind.HEADING and bool(path) and same_title(path[-1], block.text)
        pairs = enumerate(zip(path, self._open, strict=False))
        shared_depth = next((at for at, (title, node) in pairs if title != node.title), min(len(path), len(self._open)))
        if is_title and shared_depth == len(path) and self.nodes[-1] is not self._open[shared_depth - 1]:
            shared_depth -= 1  # another section of the same name: the one before is not empty
        del self._open[shared_depth:]
        for title in path[shared_depth:]:
            self._open.append(self.add(NodeKind.SECTION, block, title))
        opened = shared_depth < len(path)
        return is_title or (opened and block.kind is BlockKind.HEADING)

    def add(self, kind: NodeKind, block: Block, title: str = "", placement: Placement | None = None) -> Node:
        """Add a node to the innermost open section."""
        parent = self._open[-1].node_id if self._open else None
        located = placement or block
        figure_id = placement.figure_id if placement else None
        title = " ".join(strip(title).split())
        self.nodes.append(
            Node(len(self.nodes) + 1, parent, kind, title, located.page, located.bbox, block.order, figure_id)
        )
        return self.nodes[-1]
