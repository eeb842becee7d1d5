package podfacts

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExpand(t *testing.T) {
	vars := map[string]string{"A": "x", "EMPTY": "", "NEST": "$(A)"}
	lookup := func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	for in, want := range map[string]string{
		"": "", "plain": "plain", "$(A)": "x", "-$(A)$(A)-": "-xx-", "$(EMPTY)": "", "$(NEST)": "$(A)",
		"$$(A)": "$(A)", "$$$(A)": "$x", "$$": "$", "$": "$", "a$": "a$", "$A": "$A", "$(B)": "$(B)", "$(A": "$(A", "$()": "$()",
		"$(A$(A)": "$(A$(A)", "$$$": "$$",
	} {
		require.Equal(t, want, Expand(in, lookup), in)
	}
}

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"$(A)", "$$(A", "$", "($)$"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		unknown := func(string) (string, bool) { return "", false }
		got := Expand(text, unknown)
		if !strings.Contains(text, "$$") {
			require.Equal(t, text, got, "unknown names stay as they are")
		}
	})
}
