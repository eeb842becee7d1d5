package podwright_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The packages, tests, flags, programs and environment variables of the commands in the README and
// the pages of docs exist. Placeholders are in capitals.
func TestCommandsExist(t *testing.T) {
	variable := regexp.MustCompile(`PODWRIGHT_[A-Z0-9_]+`)
	all := goText(t, ".", true)
	found := 0
	for _, page := range pages(t) {
		text := read(t, page)
		for _, name := range variable.FindAllString(text, -1) {
			if !strings.Contains(all, name) {
				t.Errorf("%s: no program reads %s", page, name)
			}
		}
		for _, command := range commandsOf(text) {
			found++
			if err := checkCommand(t, command); err != "" {
				t.Errorf("%s: %s\n%s", page, err, command)
			}
		}
	}
	require.Greater(t, found, 30)
}

// commandsOf returns the commands of a page: the lines of its "sh" blocks, and the spans of code
// that begin with a program or a variable. BENCH is the benchmark program, and a flag alone is one
// of the kubelet.
func commandsOf(page string) (out []string) {
	block := regexp.MustCompile("(?s)```sh[^\n]*\n(.*?)```")
	for _, b := range block.FindAllStringSubmatch(page, -1) {
		out = append(out, strings.Split(strings.TrimSpace(strings.NewReplacer("&&\n", "&& ", ")\n", "); ").Replace(b[1])), "\n")...)
	}
	short := regexp.MustCompile("`(BENCH|--[a-z])")
	page = short.ReplaceAllStringFunc(block.ReplaceAllString(page, ""), func(found string) string {
		if found == "`BENCH" {
			return "`go run ./examples/tools/bench"
		}
		return "`go run ./examples/kubelet " + found[1:]
	})
	for _, span := range regexp.MustCompile("`((?:[A-Z_]+=\\S+ )*go (?:run|test|doc|build) [^`]*)`").FindAllStringSubmatch(page, -1) {
		out = append(out, span[1])
	}
	return out
}

var assignment = regexp.MustCompile(`^[A-Z_]+=`)

// checkCommand returns the first fault of a command, or "".
func checkCommand(t *testing.T, command string) string {
	words := strings.Fields(strings.NewReplacer("'", " ", `"`, " ", "$(", " ; ", ")", " ; ", ";", " ; ").Replace(command))
	for i, word := range words {
		starts := i == 0 || slices.Contains([]string{"&&", ";", "--", "-c", "&", "|"}, words[i-1]) || assignment.MatchString(words[i-1])
		switch {
		case !starts || isPlaceholder(word) || strings.Contains(word, "=") || strings.HasPrefix(word, "-") || strings.ContainsAny(word, ";&$./"):
		case word == "go":
			if err := checkGo(t, words[i+1:]); err != "" {
				return err
			}
		case !slices.Contains([]string{"curl", "docker", "export", "install", "mktemp", "podwright-kubelet", "rm", "sh", "systemctl"}, word):
			return "unknown program " + word
		}
	}
	return ""
}

// valueFlags are the flags of the go command with their value in the next word. switches have none.
var valueFlags, switches = []string{"-C", "-bench", "-fuzz", "-o", "-run", "-tags", "-timeout"}, []string{"-all", "-benchmem", "-race", "-short", "-v"}

// checkGo checks the words after "go": a subcommand, its flags, packages, and their flags.
func checkGo(t *testing.T, words []string) string {
	tool, dir, packages, tests := words[0], ".", []string(nil), ""
	if tool == "get" {
		return ""
	}
	for i := 1; i < len(words); i++ {
		word := words[i]
		name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		switch {
		case slices.Contains([]string{"--", "&&", ";", "&", "|", "-c"}, word) || strings.HasPrefix(word, ">"):
			return checkTests(t, packages, tests)
		case slices.Contains(valueFlags, word) && (packages == nil || tool == "test"):
			i++
			switch word {
			case "-C":
				dir = words[i]
			case "-run", "-bench":
				tests = words[i]
			}
		case slices.Contains(switches, word) && (packages == nil || tool == "test"):
		case strings.HasPrefix(word, "-"):
			if name != "help" && !strings.Contains(goText(t, packages[0], tool == "test"), `"`+name+`"`) {
				return packages[0] + " has no flag " + name
			}
		case word[0] == '.':
			path := filepath.Join(dir, strings.TrimSuffix(word, "..."))
			if _, err := os.Stat(path); err != nil && !isPlaceholder(filepath.Base(word)) {
				return err.Error()
			}
			packages = append(packages, path)
		}
	}
	return checkTests(t, packages, tests)
}

// checkTests returns an error if no test, benchmark or example of the packages matches pattern.
func checkTests(t *testing.T, packages []string, pattern string) string {
	if pattern == "" || pattern == "." || pattern == "^$" || isPlaceholder(strings.TrimPrefix(pattern, "Test")) {
		return ""
	}
	for _, name := range regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Example)\w*)\(`).FindAllStringSubmatch(goText(t, packages[0], true), -1) {
		if regexp.MustCompile(pattern).MatchString(name[1]) {
			return ""
		}
	}
	return packages[0] + " has no test that matches " + pattern
}

func isPlaceholder(word string) bool { return regexp.MustCompile(`^[A-Z]+$`).MatchString(word) }

// goText returns the text of the Go files below a folder.
func goText(t *testing.T, folder string, withTests bool) string {
	var out strings.Builder
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || !withTests && strings.HasSuffix(path, "_test.go") {
			return err
		}
		out.WriteString(read(t, path))
		return nil
	}))
	return out.String()
}
