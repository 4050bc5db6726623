"""Published vectors, read from files that were downloaded before (GloVe, fastText)."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from ...base import data_dir
from ...errors import did_you_mean
from ...ndarray import NDArray, zeros
from ...vocabulary import Vocabulary
from .token_embedding import TokenEmbedding, register

__all__ = ["FastText", "GloVe"]

_LANGUAGES = """
    aa ab ace ady af ak als am an ang ar arc arz as ast av ay az azb ba bar bat_smg bcl be
    bg bh bi bjn bm bn bo bpy br bs bug bxr ca cbk_zam cdo ce ceb ch cho chr chy ckb co cr
    crh cs csb cu cv cy da de diq dsb dv dz ee el eml en eo es et eu ext fa ff fi fiu_vro fj
    fo fr frp frr fur fy ga gag gan gd gl glk gn gom got gu gv ha hak haw he hi hif ho hr
    hsb ht hu hy hz ia id ie ig ii ik ilo io is it iu ja jam jbo jv ka kaa kab kbd kg ki kj
    kk kl km kn ko koi kr krc ks ksh ku kv kw ky la lad lb lbe lez lg li lij lmo ln lo lrc
    lt ltg lv mai map_bms mdf mg mh mhr mi min mk ml mn mo mr mrj ms mt mus mwl my myv mzn
    na nah nap nds nds_nl ne new ng nl nn no nov nrm nso nv ny oc olo om or os pa pag pam
    pap pcd pdc pfl pi pih pl pms pnb pnt ps pt qu rm rmy rn ro roa_rup roa_tara ru rue rw
    sa sah sc scn sco sd se sg sh si simple sk sl sm sn so sq sr srn ss st stq su sv sw szl
    ta tcy te tet tg th ti tk tl tn to tpi tr ts tt tum tw ty tyv udm ug uk ur uz ve vec vep
    vi vls vo wa war wo wuu xal xh xmf yi yo za zea zh zh_classical zh_min_nan zh_yue zu
"""
_ALIGNED = """
    ar bg ca cs da de el en es et fi fr he hr hu id it mk nl no pl pt ro ru sk sl sv tr uk
    vi
"""
"""Languages of ``wiki.multi``, whose vectors are aligned with each other."""


class _Published(TokenEmbedding):
    """Vectors from a file in ``embedding_root/NAME``, or in an archive beside it.

    Args:
        pretrained_file_name: name of the file; None for the default one.
        embedding_root: the folder, by default ``$MXNET_HOME/embeddings``.
        init_unknown_vec: creates the vector of unknown tokens.
        vocabulary: the tokens to keep; None for all tokens of the file.
        **kwargs: those of ``Vocabulary``.

    Raises:
        FileNotFoundError: there is no such file. KeyError: nor is one published under this name.
    """

    default_file: ClassVar[str]
    address: ClassVar[str]

    def __init__(
        self,
        pretrained_file_name: str | None = None,
        embedding_root: str | None = None,
        init_unknown_vec: Callable[..., NDArray] = zeros,
        vocabulary: Vocabulary | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        root = Path(embedding_root or Path(data_dir(), "embeddings")).expanduser()
        folder = root / type(self).__name__.lower()
        path = self._local_file(folder, pretrained_file_name or self.default_file)
        self._load_embedding(str(path), " ", init_unknown_vec)
        if vocabulary is not None:
            self._take(vocabulary, [self])

    @staticmethod
    def archive_of(pretrained_file_name: str) -> str:
        """Return the name of the archive with a published file."""
        raise NotImplementedError("a subclass names its archives")

    def _local_file(self, folder: Path, name: str) -> Path:
        path = folder / name
        if path.is_file():
            return path
        kind = type(self).__name__
        if name not in self.pretrained_file_names:
            known = self.pretrained_file_names
            raise KeyError(
                f"{kind} has no file {name!r}{did_you_mean(name, known)}, and there is none at "
                f"{path}; get_pretrained_file_names({kind.lower()!r}) lists the published ones"
            )
        archive = folder / self.archive_of(name)
        if not archive.is_file():
            raise FileNotFoundError(
                f"{path} does not exist. modserve downloads nothing: get {name}, or its archive "
                f"{archive.name}, from {self.address} and put it into {folder}; or read a file "
                "elsewhere with CustomEmbedding(path)"
            )
        with zipfile.ZipFile(archive) as files:
            files.extract(name, folder)
        return path


@register
class GloVe(_Published):
    """Vectors from co-occurrences of words (Pennington et al. 2014).

    Arguments and errors are those of all published vectors; by default the file is
    ``glove.840B.300d.txt`` in ``$MXNET_HOME/embeddings/glove``.
    """

    default_file = "glove.840B.300d.txt"
    address = "https://nlp.stanford.edu/projects/glove/"
    pretrained_file_names = (
        "glove.42B.300d.txt",
        *(f"glove.6B.{width}d.txt" for width in (50, 100, 200, 300)),
        "glove.840B.300d.txt",
        *(f"glove.twitter.27B.{width}d.txt" for width in (25, 50, 100, 200)),
    )

    @staticmethod
    def archive_of(pretrained_file_name: str) -> str:
        """Return the name of the archive, which has all widths of the smaller sets."""
        stem = pretrained_file_name.removesuffix(".txt")
        is_single = stem in ("glove.42B.300d", "glove.840B.300d")
        return f"{stem if is_single else stem.rpartition('.')[0]}.zip"


@register
class FastText(_Published):
    """Vectors from n-grams of letters (Bojanowski et al. 2016), in many languages.

    Arguments and errors are those of all published vectors; by default the file is
    ``wiki.simple.vec`` in ``$MXNET_HOME/embeddings/fasttext``.
    """

    default_file = "wiki.simple.vec"
    address = "https://fasttext.cc/docs/en/pretrained-vectors.html"
    pretrained_file_names = (
        "crawl-300d-2M.vec",
        *(f"wiki.{language}.vec" for language in _LANGUAGES.split()),
        *(f"wiki.multi.{language}.vec" for language in _ALIGNED.split()),
        "wiki-news-300d-1M.vec",
        "wiki-news-300d-1M-subword.vec",
    )

    @staticmethod
    def archive_of(pretrained_file_name: str) -> str:
        """Return the name of the archive, one for each file."""
        return f"{pretrained_file_name.removesuffix('.vec')}.zip"
