package podfacts

import (
	"regexp"
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
		"$(A$(A)": "$(A$(A)", "$$$": "$$", "$xA)": "$xA)",
	} {
		got, ok := Expand(in, len(want), lookup)
		require.True(t, ok, in)
		require.Equal(t, want, got, in)
		_, ok = Expand(in, len(want)-1, lookup)
		require.False(t, ok, in)
	}
}

// What is too much is not made first.
func TestExpandIsBounded(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	asked := 0
	_, ok := Expand(strings.Repeat("$(BIG)", 1<<20), 4<<20, func(string) (string, bool) { asked++; return big, true })
	require.False(t, ok)
	require.Equal(t, 5, asked)
}

// references are what Expand replaces, told in another way.
var references = regexp.MustCompile(`(?s)\$\$|\$\([^)]*\)|\$.`)

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"$(A)", "$$(A", "$", "($)$", "$(A)$(B)$$$(A)", "$(", "$(A$(A))"} {
		f.Add(seed, 100)
	}
	f.Add("$(A)", 1)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		vars := map[string]string{"A": "some$$thing", "": "nothing", "$(A": "odd"}
		lookup := func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
		want := references.ReplaceAllStringFunc(text, func(ref string) string {
			if ref == "$$" {
				return "$"
			}
			if name, ok := strings.CutPrefix(ref, "$("); ok && strings.HasSuffix(name, ")") {
				if value, ok := lookup(name[:len(name)-1]); ok {
					return value
				}
			}
			return ref
		})
		got, ok := Expand(text, limit, lookup)
		require.Equal(t, len(want) <= limit, ok)
		if ok {
			require.Equal(t, want, got)
		}
	})
}
