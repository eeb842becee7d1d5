package embedded

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParentIn(t *testing.T) {
	for stat, want := range map[string]int{
		"12 (sh) S 7 12 12 0": 7, "12 (a ) b (c)) R 42 1": 42, "12 (x) S": 0, "": 0, "12 (x) S seven": 0,
	} {
		require.Equal(t, want, parentIn(stat), "%q", stat)
	}
	own, err := os.ReadFile("/proc/self/stat")
	require.NoError(t, err)
	require.Equal(t, os.Getppid(), parentIn(string(own)))
}

func FuzzParentIn(f *testing.F) {
	f.Add("sh", uint32(7), " 12 12 0", "12 (sh) S 7 12")
	f.Add("a ) b (c)) R 42 1", uint32(1), "", ")")
	f.Add("two\nlines", uint32(4194304), " -1 0", "12 (x) S -7")
	f.Add("", uint32(0), "", "12 (x) S")
	f.Fuzz(func(t *testing.T, command string, parent uint32, rest, anything string) {
		if !strings.Contains(rest, ")") { // the kernel writes only numbers in the rest
			stat := fmt.Sprintf("12 (%s) S %d %s", command, parent, rest)
			require.Equal(t, int(parent), parentIn(stat), "%q", stat)
		}
		parentIn(anything) // must not panic
	})
}
