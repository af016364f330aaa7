"""The rules of the dynamic padder: what each op becomes when its dynamic dimensions are padded to their bounds.

The sizes that count are those of `analysis.dynamic_dimensions`.
"""
