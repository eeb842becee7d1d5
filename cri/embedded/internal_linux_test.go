package embedded

import (
	"os"
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
	f.Add("12 (sh) S 7 12")
	f.Add(")")
	f.Fuzz(func(_ *testing.T, stat string) { parentIn(stat) })
}
