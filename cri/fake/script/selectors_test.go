package script_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Which counts only what subject and selector fit, and fires as it says.
func TestWhich(t *testing.T) {
	for which, want := range map[string]string{
		"2nd": ".x.......", "every": "xxxxxxxxx", "every 3rd": "..x..x..x", "2nd to 4th": ".xxx.....", "from the 8th": ".......xx",
		"100% of": "xxxxxxxxx",
	} {
		play(t, which+" Version: Unknown", func(s *stage) { require.Equal(t, want, s.pattern(9), which) })
	}
}

// pattern calls Version n times and marks the failures.
func (s *stage) pattern(n int) string {
	pattern := ""
	for range n {
		_, err := s.Status(s.t.Context(), false) // is not counted
		require.NoError(s.t, err)
		mark := "."
		if s.version() != nil {
			mark = "x"
		}
		pattern += mark
	}
	return pattern
}
