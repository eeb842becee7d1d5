package probe

import (
	"fmt"
	"slices"
	"strconv"
)

// MarshalText returns the type's name. It returns an error for an unknown type.
func (t Type) MarshalText() ([]byte, error) { return nameText(typeNames[:], int(t), t) }

// UnmarshalText sets the type from its name. It returns an error for an unknown name.
func (t *Type) UnmarshalText(text []byte) error { return unmarshalName(t, typeNames[:], "type", text) }

// MarshalText returns the verdict's name. It returns an error for an unknown verdict.
func (v Verdict) MarshalText() ([]byte, error) { return nameText(verdictNames[:], int(v), v) }

// UnmarshalText sets the verdict from its name. It returns an error for an unknown name.
func (v *Verdict) UnmarshalText(text []byte) error {
	return unmarshalName(v, verdictNames[:], "verdict", text)
}

func nameText(names []string, i int, value fmt.Stringer) ([]byte, error) {
	if i < 0 || i >= len(names) {
		return nil, fmt.Errorf("probe: unknown %s", value)
	}
	return []byte(names[i]), nil
}

func unmarshalName[T ~int8](to *T, names []string, kind string, text []byte) error {
	i := slices.Index(names, string(text))
	if i < 0 {
		return fmt.Errorf("probe: unknown %s %q", kind, text)
	}
	*to = T(i)
	return nil
}

func nameOf(names []string, kind string, i int) string {
	if i < 0 || i >= len(names) {
		return kind + "(" + strconv.Itoa(i) + ")"
	}
	return names[i]
}
