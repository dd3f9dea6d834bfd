import snug.tensor as T

T.sort(T.dvector("x"), kind="bubblesort")
