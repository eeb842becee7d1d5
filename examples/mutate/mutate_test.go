package main

import (
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

// A survivor of an earlier run is found again, also in another line.
func TestSurvivedIn(t *testing.T) {
	t.Chdir("../..")
	all, err := candidates([]string{"internal/backoff"})
	require.NoError(t, err)
	c := all[0]
	earlier := "noticed  a\nSURVIVED " + c.String() + "\n"
	c.Line += 10
	require.True(t, c.survivedIn(earlier))
	c.To += "x"
	require.False(t, c.survivedIn(earlier))
}

func TestNoSources(t *testing.T) {
	_, err := candidates([]string{"nowhere"})
	require.ErrorIs(t, err, os.ErrNotExist)
}
