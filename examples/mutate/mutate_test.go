package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	mutants "github.com/podwright/podwright/internal/mutate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What is listed is still where it was.
func TestScope(t *testing.T) {
	t.Chdir("../..")
	all, err := candidates(decisionCode)
	require.NoError(t, err)
	folders := map[string]bool{}
	for _, c := range all {
		folders[filepath.Dir(c.File)] = true
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
	place := fmt.Sprintf("%s:%d", c.File, c.Line)
	for _, list := range []string{
		"noticed  a\nSURVIVED " + c.String() + "\nall 1 survived\n", "EXPIRED " + c.String(), c.String(), place + ":" + c.Operator + "\n",
		c.File + ":1000: " + c.Mutant.String(), c.String() + "\n" + c.String(),
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

// A folder that does not build is named, and the others are tried.
func TestFolderThatDoesNotBuild(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"go.mod":         "module m\n\ngo 1.26\n",
		"bad/a.go":       "package bad\n\nfunc A(n int) bool { return n > 1 }\n\nvar b undefined\n",
		"bad/a_test.go":  "package bad\n\nimport \"testing\"\n\nfunc Test(*testing.T) {}\n",
		"sick/a.go":      "package sick\n\nfunc A(n int) bool { return n > 1 }\n",
		"sick/a_test.go": "package sick\n\nimport \"testing\"\n\nfunc Test(t *testing.T) { t.Fatal(\"always\") }\n",
		"good/a.go":      "package good\n\nfunc A(n int) bool { return n > 1 }\n",
		"good/a_test.go": "package good\n\nimport \"testing\"\n\nfunc Test(*testing.T) {}\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	t.Setenv("GOWORK", "off")
	tried := &trials{options: options{n: 2, parallel: 1, timeout: time.Minute}, figures: map[string]*figure{}, unhealthy: map[string]error{}}
	for _, folder := range []string{"bad", "sick", "good"} {
		found, err := candidates([]string{folder})
		require.NoError(t, err)
		tried.queue = append(tried.queue, found...)
	}
	require.NoError(t, tried.work(t.Context()))
	require.EqualError(t, tried.sick(), "not tried, since they do not build or fail without a mutant: bad, sick")
	require.ErrorIs(t, tried.unhealthy["bad"], mutants.ErrBuild)
	require.Equal(t, 2, tried.figures["good"][mutants.Survived])
	require.Len(t, tried.figures, 1)
}

// That only the tests that come by a mutant run on it does not change what becomes of it.
func TestFewerTestsSayTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles")
	}
	const source = "package m\n\nfunc A(n int) bool { return n > 1 }\n\nfunc B(n int) bool { return n > 2 }\n"
	const head = "package m\n\nimport \"testing\"\n\n"
	const check = "func TestA(t *testing.T) {\n\tif !A(2) || A(1) || !B(3) || B(2) { t.Fatal() }\n}\n"
	for name, c := range map[string]struct {
		source, test, run string
		want              mutants.Outcome
	}{
		// TestB fails without TestA, with or without a mutant: that it does is no notice.
		"after another": {source, head + "var ready bool\n\nfunc TestA(*testing.T) { ready = true }\n\n" +
			"func TestB(t *testing.T) {\n\tA(1)\n\tB(1)\n\tif !ready { t.Fatal() }\n}\n", "", mutants.Survived},
		// Without TestA it does not come as far as A.
		"no farther": {source, head + "var ready bool\n\nfunc TestA(*testing.T) { ready = true }\n\n" +
			"func TestB(t *testing.T) {\n\tif !ready || !A(2) || A(1) || !B(3) || B(2) { t.Fatal() }\n}\n", "", mutants.Failed},
		"part of a test":   {source, head + "func Test(t *testing.T) { t.Run(\"a\", TestA) }\n\n" + check, "^Test$/a", mutants.Failed},
		"names of imports": {source + "\nfunc sync() {}\n\nvar fmt, atomic, strconv = 1, 2, 3\n", head + check, "", mutants.Failed},
		"unlisted": {source, "package m\n\nimport (\n\t\"flag\"\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) {\n" +
			"\tflag.Parse()\n\tif flag.Lookup(\"test.list\").Value.String() != \"\" { os.Exit(1) }\n\tm.Run()\n}\n\n" + check, "", mutants.Failed},
		"by what is tried itself": {source, head + check, "", mutants.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv("GOWORK", "off")
			passed := filepath.Join(t.TempDir(), "passed")
			if name == "by what is tried itself" { // on a mutant, or to see what it comes by
				t.Setenv("PODWRIGHT_MUTANT", "1")
				t.Setenv("PODWRIGHT_MUTANTS_PASSED", passed)
			}
			for file, text := range map[string]string{"go.mod": "module m\n\ngo 1.26\n", "a.go": c.source, "a_test.go": c.test} {
				require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
			}
			all, err := candidates([]string{"a.go"})
			require.NoError(t, err)
			n := 0
			for _, m := range all {
				if m.Operator == "operator" {
					all[n] = m
					n++
				}
			}
			require.Equal(t, 2, n)
			tried := &trials{
				options: options{n: n, parallel: 1, timeout: time.Minute, run: c.run},
				queue:   all[:n], figures: map[string]*figure{}, unhealthy: map[string]error{},
			}
			require.NoError(t, tried.work(t.Context()))
			require.NoError(t, tried.sick())
			require.Equal(t, n, tried.figures["."][c.want])
			require.NoFileExists(t, passed)
		})
	}
}
