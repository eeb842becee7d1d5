package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAgain(t *testing.T) {
	const failed = "--- FAIL: TestManySessions (1.00s)\n    --- FAIL: TestManySessions/sub (1.00s)\nFAIL\nFAIL\texample.com/b\t2.0s\n"
	for name, c := range map[string]struct {
		printed string
		want    [][]string
		ok      bool
	}{
		"nothing failed": {"ok  \texample.com/a\t0.1s\n", nil, false},
		"one":            {failed, [][]string{{"-run=^(TestManySessions)$", "example.com/b"}}, true},
		"two packages": {
			failed + "--- FAIL: TestManySessions (0s)\n--- FAIL: TestOutagesOfTheNetwork (0s)\nFAIL\texample.com/c\t1s\n",
			[][]string{{"-run=^(TestManySessions)$", "example.com/b"}, {"-run=^(TestManySessions|TestOutagesOfTheNetwork)$", "example.com/c"}}, true,
		},
		"another, too": {
			failed + "--- FAIL: TestOther (0s)\nFAIL\texample.com/c\t1s\n",
			[][]string{{"-run=^(TestManySessions)$", "example.com/b"}, {"-run=^(TestOther)$", "example.com/c"}}, false,
		},
		"a race":         {"WARNING: DATA RACE\n" + failed, [][]string{{"-run=^(TestManySessions)$", "example.com/b"}}, false},
		"a panic":        {"panic: test timed out after 45m0s\n" + failed, [][]string{{"-run=^(TestManySessions)$", "example.com/b"}}, false},
		"does not build": {"FAIL\texample.com/b [build failed]\n", [][]string{{"-run=^()$", "example.com/b"}}, false},
	} {
		d := &digest{out: new(nobody)}
		fmt.Fprint(d, c.printed)
		runs, ok := d.take()
		require.Equal(t, c.ok, ok, name)
		require.Equal(t, c.want, runs, name)
		_, ok = d.take()
		require.False(t, ok, name)
	}
}

type nobody struct{}

func (nobody) Write(b []byte) (int, error) { return len(b), nil }
