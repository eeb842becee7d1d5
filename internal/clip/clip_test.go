package clip

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A truncated text contains no partial character for every limit. Text that is not UTF-8 is cut
// anywhere.
func TestText(t *testing.T) {
	rubbish := strings.Repeat("\x80", 8)
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"ab", 2, "ab"}, {"ab", 1, "a"}, {"ab", 0, ""}, {"aé", 2, "a"}, {"aéb", 3, "aé"},
		{"é", 1, ""}, {"a😀", 4, "a"}, {"😀", 3, ""},
		{rubbish, 6, rubbish[:6]}, {rubbish, 1, rubbish[:1]}, {"a" + rubbish, 4, "a" + rubbish[:3]}, {"a" + rubbish, 6, "a" + rubbish[:5]},
	} {
		require.Equal(t, c.want, Text(c.text, c.limit), "%q to %d", c.text, c.limit)
	}
}
