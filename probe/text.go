package probe

import (
	"fmt"
	"slices"
)

// MarshalText returns the name of a known type.
func (t Type) MarshalText() ([]byte, error) {
	if t < 0 || int(t) >= len(typeNames) {
		return nil, fmt.Errorf("probe: there is no %s", t)
	}
	return []byte(typeNames[t]), nil
}

// UnmarshalText takes the name of a type.
func (t *Type) UnmarshalText(text []byte) error {
	i := slices.Index(typeNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("probe: there is no type %q", text)
	}
	*t = Type(i)
	return nil
}

// MarshalText returns the name of a known verdict.
func (v Verdict) MarshalText() ([]byte, error) {
	if v < 0 || int(v) >= len(verdictNames) {
		return nil, fmt.Errorf("probe: there is no %s", v)
	}
	return []byte(verdictNames[v]), nil
}

// UnmarshalText takes the name of a verdict.
func (v *Verdict) UnmarshalText(text []byte) error {
	i := slices.Index(verdictNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("probe: there is no verdict %q", text)
	}
	*v = Verdict(i)
	return nil
}
