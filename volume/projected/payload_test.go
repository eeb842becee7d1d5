package projected

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// V6: paths that no folder can contain are rejected.
func TestCheckRejects(t *testing.T) {
	uid := func(n int64) *int64 { return &n }
	for want, p := range map[string]payload{
		`"../x" contains ".."`:                 {"../x": {}},
		`"a/../b" contains ".."`:               {"a/../b": {}},
		`"..y" begins with ".."`:               {"..y": {}},
		`"./..y" begins with ".."`:             {"./..y": {}},
		`"..data/y" begins with ".."`:          {"..data/y": {}},
		`"/etc/passwd" is absolute`:            {"/etc/passwd": {}},
		`"" is empty`:                          {"": {}},
		`"./" is empty`:                        {"./": {}},
		`"a\x00b" is not text`:                 {"a\x00b": {}},
		`"a\xc3" is not text`:                  {"a\xc3": {}},
		"5000 bytes, more than 4096":           {strings.Repeat("a/", 2500): {}},
		"1048576 bytes, more than 4096":        {strings.Repeat("k", 1<<20): {}},
		"256 bytes, more than 255":             {"a/" + strings.Repeat("b", 256): {}},
		`"a/b" occurs twice`:                   {"a/b": {}, "a//b": {}},
		`"a" is both a file and a`:             {"a": {}, "a/b/c": {}},
		`mode 01000 is not`:                    {"a": {Mode: 0o1000}},
		`is not from 0 to 0777`:                {"a": {Mode: -1}},
		`owner -1 is not a valid user`:         {"a": {Owner: uid(-1)}},
		`owner 4294967295 is not a valid user`: {"a": {Owner: uid(1<<32 - 1)}},
	} {
		_, err := p.check()
		require.ErrorContains(t, err, want)
		require.Less(t, len(err.Error()), 300, "messages are short")
		dir := t.TempDir()
		_, err = writePayload(dir, p, writeOptions{})
		require.ErrorContains(t, err, want)
		require.Empty(t, list(t, dir), "no files were written")
	}
}

func TestCheckCleans(t *testing.T) {
	last := int64(1<<32 - 2)
	p, err := payload{"./a//b/": {Mode: 0o777, Owner: &last}, "c..d": {}, "e/..f": {}, strings.Repeat("x", 255): {}}.check()
	require.NoError(t, err)
	require.Len(t, p, 4)
	require.Contains(t, p, "a/b")
	q := payload{"a/b": {Mode: 1}}
	q.add(payload{"a//b": {Mode: 2}})
	require.Equal(t, payload{"a/b": {Mode: 2}}, q, "the later one wins")
}

func FuzzCheckPath(f *testing.F) {
	for _, seed := range []string{"a", "../x", "..y", "a/..", "/", "./..data", "a//b", "\x00", strings.Repeat("a", 256)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if checkPath(name) != nil {
			return
		}
		dir := t.TempDir()
		_, err := writePayload(dir, payload{name: {Data: []byte(name), Mode: 0o600}}, writeOptions{})
		if err == nil {
			require.Equal(t, name, read(t, dir, name))
		}
		require.LessOrEqual(t, len(list(t, dir)), 3)
	})
}
