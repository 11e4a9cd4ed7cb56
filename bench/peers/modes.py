"""The options of `vernier build` with which a benchmark measures a mode as it is asked for: in int8
and fp8 every product, never the engine in 16 bits that a build may keep instead."""
QUANTIZED_WHOLE = ("--no-compare", "--int8-error", "100")


def mode_options(mode):
    return [f"--{mode}", *(QUANTIZED_WHOLE if mode in ("int8", "fp8") else ())]
