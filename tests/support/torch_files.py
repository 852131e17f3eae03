"""Pickled tensors in PyTorch's layouts, written operation by operation without PyTorch, and some files from PyTorch."""

from __future__ import annotations

import base64
import io
import pickle
import struct
import zipfile
import zlib
from typing import Any

import numpy as np

MAGIC, SYSTEM = 0x1950A86A20F9469CFC6C, {"protocol_version": 1001, "little_endian": True, "type_sizes": {"long": 4}}
STORAGE = {"<f4": "FloatStorage", "<f8": "DoubleStorage", "<f2": "HalfStorage", "<i8": "LongStorage",
           "|u1": "ByteStorage", "|b1": "BoolStorage"}  # fmt: skip

# {"map": arange(6) / 4 as (1, 1, 2, 3), "prob": 0.25, "task": "Edema", "gt": 1, "cxr_dims": (3, 2)}, as PyTorch 2.13
# writes it (zlib, base 85), by pickle.dumps, torch.save, and torch.save with _use_new_zipfile_serialization=False.
BY_TORCH = {
    "pickle": (
        "c-n1IJ5L-j5Z>1v=y(W)ijH#AoOm6AhKmr7!Xgi7wu!90U2_=r)@OSb0n$m^fB?D6&{3q!&&l85Cqzn-fo)PSqZ!NN&)<wc*U{69"
        "@4eXsV;7FnF}hh$COhl$3S?o?ec(n6Dp}+lL}``bmuvWgz;g}E(vl7Zx&>aSH0P&AjriaigeBDOBC*%OW2gB0eDG)a{MXl|ZXF!G"
        "gp?=Ri<1TFJT?kcrV4&3jFqa?J^_+BIw>STA-E`WnU*@ZPdZeD>#^Wg-UzG1iH_o=MMZn24CodMl8|<?1l?v)61{S$a;T?RR8`b7"
        "PNrVL&B)rz-k#7opuyp!DR#7<%oApNW2?8i-COUiuCMeqb;FyDD;=`-XVB3%V*9SW_ppB2ZF~P)y+f(*d7mh1il2SF#bab%%zW~I"
        "g@7?@lZVU)d~h?QMj<jFG3WzkzL;DXk?+Y2NYjtU2z1*;q}u=w`@fqeE`rovplj{tVw9o_hJeg>)7h2bxg1#}^571u?mv!amE-"
    ),
    "zip": (
        "c-p0u%Wl&^6o$uk>I4J1ltoJyWr?{ZapGJGv_TQL3ojaiDp_nS#~xCvPMonPp@5JgA&^+`1_<#MJO-2nD|UboD;@!6Vn}U=hEgW7"
        "$C;V`%s0pXaZBYA0Hji2re(n*Fg$a|9>IcTU?V@+b(Cfr+>Nv``xpUH<A|VV3=m^tmuT|(5ZjI~=pO70ZO76v?E9{#k4ge!MNvzV"
        "<vv+ybRpsbiJ&;Hf$s!^0!nBMSyMy{lhEd1h<KI9D0y22qRNmTt8y5nM3oGyoXTKy;<;(Mjss0>yM15S@+{~<>!xjD0SOn{=p;s`"
        "+UT@Kjtd5!+d=8g#=GFClQC@gyC|bAkjGmV>=`JlvE;dnQBGwvnjmw}(=EH_qeZeK`wX2K=38nq^{8<1#Sbz~uhyaITmsjp>CE4A"
        "y`F*f5%hclt2FDetRB5dl;F+xk56d2n7ITipmsp;EBm_P*xh~)_Oa3|9|xi;Q-H>O^o=HqoePiyjVVCq0fsJpMN0G9u@6t0V`J<<"
        "%J6jk(^;PE!p~($gN=x*3q_@Q^*;cDsN)TCYXESATw`**Zcw83m#^oR$;9$pq71k+C7K%I{85q00^Mo<Rd@UE`CkR40|QJB??cZf"
        "4tQwLn$c}bY3Bbi7gD8Gs!MBY6-laB<f>dQma4@{MJ|<Pxh9vTx>O?bwF;$tX?$K635PhLWGL*EGh9U38S?mdD6S3{z*0oH#el=g"
        "E*>Oo;+05{{cw<(%8ADb8!;D&(`LbJ0mS8D*Q6uz4=jjzH?9r)AQRE<a3JooxH$ZJRwLr~A@QG$(^7f<@^71QSEkBjtbfY{{azyI"
        "iEc8r$p`;~FW3SfXp)ol!P=kK_;ok"
    ),
    "before_1.6": (
        "c-n1Hy>1gh5Z?Ro51TkRP|;ByjTOf@A`MOfrdUD1G~1xl`EF$|oNsS-=PVM*k}H(t8B(Oo<M0|h0un{$&O)MKRx{fD=G&S1X6xVZ"
        "{Lk(5_w%p!AD<1j{`+46#SO4X_8DWPHE2?k$7^MsHU)S@kUh%e8ZlR~Dl(lE;9p5jAYPOzcKT8|2sRK#vPGa<8jH{pz6|K43xu`^"
        "WmwlR#R57atg62~YsM-m!AsHDbUBDC)VbraRr5;cS&XW1#>VSo4t^BLPF<du$wEP}`@*NWN$~Ry<PgdO;+(#GH6EUhN8{n>XnX>#"
        "rcYW{G)emdLg$lUk?`pFB0%Uyf^ZQC58=^uO7e4+BB^)$+-AzE?2S&51Aj4tJ%s%k^cp#|tT`OKoBU*rH5exD8$53I@HSJc1p3ma"
        "`vT!mc(PlM@!iImUO9L|9sM8hv|h#+VE-H3O9pNBuWesbm@sxmz9qk#JOJd_dF}"
    ),
    # {"map": a parameter of bfloat16, the same numbers transposed to (1, 1, 3, 2)}
    "parameter": (
        "c-n1IJ4*vW5WZIuxEP6cc9v%oG*K~)ksxUfU$MDHmdo9moLp{icjp2T0@sL9u5;}yEd4M35`ThV;lv<VI0L)$_~x70+1z@5*R>y+"
        "slpulsVY{0iD1+q8AP#E#X1pmkVSDwQeXIE3RI{kH8TDrfF_a&GHGJMDQe4liI+d5s;HBg`60O$Y)l4Ipb}AC8@uMlqaA;}^gcIl"
        "-p)4~xpDGg;yL4*<JEDZR4`xxi^+rv8L@=x2=Ho{i6elR5}JgOpKxRD*%*XrN{NhaspRI2TaH)4pd2v)yyP05iC&ZdFT0j!EjU;*"
        "<Q3P-GVJMil?8Y?GS`BiC)nK{P7XW!m&>@#b#E16?cIaD=60*yMx)i_OX?uaxapQpfm;_yc*V8<u)5zUYrm2oYMrA_-g)h)JJnaN"
        "=D0el=^CIMw~UGosE4A8ONeOzxC8u<>X`_spy6>80IqVYuK=s(qcybd(UOgCmr#-j"
    ),
}


def by_torch(name: str) -> bytes:
    """Return one of the files that PyTorch wrote."""
    return zlib.decompress(base64.b85decode(BY_TORCH[name]))


def plain(value: Any) -> bytes:
    """Return the operations that put a plain value on the stack."""
    return pickle.dumps(value, 2)[2:-1]


def name(module: str, attribute: str) -> bytes:
    """Return the operation that puts a global name on the stack."""
    return f"c{module}\n{attribute}\n".encode()


def program(operations: bytes) -> bytes:
    """Return a complete pickle of these operations."""
    return b"\x80\x02" + operations + b"."


def as_dict(**values: bytes) -> bytes:
    """Return the operations that make a dict of values, which are given as operations."""
    return b"}(" + b"".join(plain(key) + value for key, value in values.items()) + b"u"


def storage(array: np.ndarray, row: bool = False) -> bytes:
    """Return the operations of a storage with the persistent id 0; with ``row``, in PyTorch's layout before version
    1.6.
    """
    kind = name("torch", STORAGE[array.dtype.str])
    return b"(" + plain("storage") + kind + plain("0") + plain("cpu") + plain(array.size) + b"N" * row + b"tQ"


def tensor(array: np.ndarray, made: bytes, offset: int = 0, strides: tuple[int, ...] | None = None) -> bytes:
    """Return the operations of a tensor of this array's shape, over a storage made by the operations ``made``."""
    if strides is None:
        strides = tuple(step // array.itemsize for step in np.ascontiguousarray(array).strides)
    view = plain(offset) + plain(array.shape) + plain(strides)
    hooks = name("collections", "OrderedDict") + b")R"
    return name("torch._utils", "_rebuild_tensor_v2") + b"(" + made + view + b"\x89" + hooks + b"tR"


def row_file(operations: bytes, array: np.ndarray) -> bytes:
    """Return a file as ``torch.save`` wrote it before 1.6."""
    heads = b"".join(pickle.dumps(value, 2) for value in (MAGIC, 1001, SYSTEM))
    return heads + program(operations) + pickle.dumps(["0"], 2) + struct.pack("<q", array.size) + array.tobytes()


def zip_file(operations: bytes, array: np.ndarray, compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return a file as ``torch.save`` writes it since 1.6."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.writestr("archive/data.pkl", program(operations))
        archive.writestr("archive/byteorder", "little")
        archive.writestr("archive/data/0", array.tobytes())
    return buffer.getvalue()


def pickled(array: np.ndarray, **others: Any) -> bytes:
    """Return a file in CheXlocalize's layout: a pickled dict with the tensor as ``map`` and its bytes embedded."""
    inner = row_file(storage(array, row=True), array)
    made = name("torch.storage", "_load_from_bytes") + b"B" + struct.pack("<I", len(inner)) + inner + b"\x85R"
    return program(as_dict(map=tensor(array, made), **{key: plain(value) for key, value in others.items()}))
