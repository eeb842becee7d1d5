package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What is listed is still where it was.
func TestScope(t *testing.T) {
	t.Chdir("../..")
	all, err := candidates(decisionCode)
	require.NoError(t, err)
	folders := map[string]bool{}
	for _, c := range all {
		folders[filepath.Dir(c.file)] = true
	}
	for folder, others := range alsoTestedBy {
		require.Contains(t, folders, folder)
		for _, other := range others {
			_, err := os.Stat(other)
			require.NoError(t, err)
		}
	}
}

// What a list names is found: by a line of an earlier run, also if it stands in
// another line now, and by its place.
func TestNamed(t *testing.T) {
	t.Chdir("../..")
	all, err := candidates([]string{"internal/backoff"})
	require.NoError(t, err)
	c := all[0]
	place := fmt.Sprintf("%s:%d", c.file, c.Line)
	for _, list := range []string{
		"noticed  a\nSURVIVED " + c.String() + "\nall 1 survived\n", "EXPIRED " + c.String(), c.String(), place + ":" + c.Operator + "\n",
		c.file + ":1000: " + c.Mutant.String(), c.String() + "\n" + c.String(),
	} {
		require.Equal(t, []candidate{c}, named(all, list), list)
	}
	require.Contains(t, named(all, place), c)
	for _, list := range []string{"", place + "0", place + ":x", c.String() + "x"} {
		require.Empty(t, named(all, list), list)
	}
}

func TestNoSources(t *testing.T) {
	_, err := candidates([]string{"nowhere"})
	require.ErrorIs(t, err, os.ErrNotExist)
}
