package podsource

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A long text and many aliases of it are few values, so that the decoder sees nothing
// wrong with gigabytes.
func TestDecodeRefusesWhatExpands(t *testing.T) {
	long, many := strings.Repeat("y", 1000), strings.Repeat("*s,", 20_000)
	nested := "a: &a [" + strings.Repeat("y", 1000) + "]\n"
	for from := 'a'; from < 'f'; from++ {
		nested += fmt.Sprintf("%c: &%c [%s]\n", from+1, from+1, strings.Repeat(fmt.Sprintf("*%c,", from), 9))
	}
	for name, manifest := range map[string]string{
		"text":      "s: &s " + long + "\nl: [" + many + "]\n",
		"key":       "s: &s " + long + "\nl: [" + strings.Repeat("{*s : 1},", 20_000) + "]\n",
		"binary":    "s: &s !!binary " + long + "\nl: [" + many + "]\n",
		"JSON":      `{"s":&s "` + long + `","l":[` + many + `]}`,
		"in levels": nested,
		"merged":    "s: &s {k: " + long + "}\nl: [" + strings.Repeat("{<<: *s},", 20_000) + "]\n",
	} {
		t.Run(name, func(t *testing.T) {
			d := testDecoder()
			var err, listErr error
			took := allocated(func() {
				_, err = d.Decode([]byte(manifest), "file:/m/x.yaml")
				_, listErr = d.DecodeAll([]byte(manifest), "url:http://server/pods")
			})
			require.EqualError(t, err, "the manifest has more than 10485760 bytes once its aliases (*) are replaced")
			require.Equal(t, err, listErr)
			require.Less(t, took, uint64(200<<20))
		})
	}
}

// Each value takes hundreds of bytes while it is decoded.
func TestDecodeRefusesTooManyValues(t *testing.T) {
	for name, manifest := range map[string]string{
		"lists":   "x: [" + strings.Repeat("[],", 1<<18) + "]",
		"numbers": "x: [" + strings.Repeat("0,", 1<<18) + "]",
		"lines":   "x:\n" + strings.Repeat("- \n", 1<<18),
		"keys":    "x: {" + strings.Repeat("? a,", 1<<18) + "}",
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			took := allocated(func() { _, err = testDecoder().Decode([]byte(manifest), "file:/m/x.yaml") })
			require.EqualError(t, err, "the manifest has more than 262144 values")
			require.Less(t, took, uint64(8<<20))
		})
	}
}

// Aliases as people use them, and text that only looks as if it had some.
func TestDecodeTakesAliases(t *testing.T) {
	for name, spec := range map[string]string{
		"aliases": "    env: &env [{name: A, value: b}]\n  - name: two\n    image: nginx\n    env: *env\n",
		"a shell": "    command: [sh, -c, 'ls *foo >/dev/null 2>&1 && echo &x']\n",
		"many":    "    env:\n" + strings.Repeat("    - &a {name: A, value: b}\n    - *a\n", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := testDecoder().Decode([]byte(web+spec), "file:/m/x.yaml")
			require.NoError(t, err)
		})
	}
}

// An anchor inside itself has no size.
func TestDecodeRefusesEndlessAliases(t *testing.T) {
	_, err := testDecoder().Decode([]byte("kind: Pod\napiVersion: v1\nx: &x [*x]\n"), "file:/m/x.yaml")
	require.ErrorContains(t, err, "contains itself")
}
