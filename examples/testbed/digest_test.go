package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDigest(t *testing.T) {
	const printed = `ok  	example.com/a	0.1s
--- FAIL: TestOne (1.00s)
    --- FAIL: TestOne/sub (1.00s)
        one_test.go:7: not within a minute: 3 pods
        time=2026-01-01T00:00:00.000Z level=DEBUG msg="call to the runtime" err="FAIL"
        2026/01/01 00:00:00 INFO pod observation is healthy
        time=2026-01-01T00:00:00.000Z level=ERROR msg="no disk"

    --- PASS: TestOne/other (1.00s)
        one_test.go:9: all is well
FAIL
FAIL	example.com/b	2.0s
ok  	example.com/c	0.1s
`
	var out strings.Builder
	d := &digest{out: &out}
	for _, b := range []byte(printed) { // however it is cut
		_, err := d.Write([]byte{b})
		require.NoError(t, err)
	}
	require.Equal(t, printed, out.String())
	out.Reset()
	d.print()
	require.Equal(t, `
What failed:
--- FAIL: TestOne (1.00s)
    --- FAIL: TestOne/sub (1.00s)
        one_test.go:7: not within a minute: 3 pods
        time=2026-01-01T00:00:00.000Z level=ERROR msg="no disk"
FAIL	example.com/b	2.0s
`, out.String())
}

// A test that talks without end fills no memory, and the next one is heard.
func TestDigestOfMuch(t *testing.T) {
	var out strings.Builder
	d := &digest{out: &out}
	fmt.Fprintln(d, "--- FAIL: TestMuch (1.00s)")
	for i := range 1000 {
		fmt.Fprintln(d, i, strings.Repeat("x", 1000))
	}
	fmt.Fprintln(d, "--- FAIL: TestNext (1.00s)")
	require.Len(t, d.kept, digestLines+1)
	require.Len(t, d.kept[1], digestLength)
	require.Equal(t, "--- FAIL: TestNext (1.00s)", d.kept[digestLines])

	out.Reset()
	(&digest{out: &out}).print()
	require.Empty(t, out.String(), "nothing failed")
}
