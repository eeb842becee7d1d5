package podwright_test

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// phrases are the turns of phrase that rule 14 of the house limits, with the limit of each per
// 1,000 words.
var phrases = []struct {
	limit float64
	re    *regexp.Regexp
}{
	{0.8, phrase(`what`)},
	{0.8, phrase(`tells?|told|telling|asks?|asked|asking|says?|said|answers?|answered|heard|hears`)},
	{0.3, phrase(`nobody|somebody|anybody|everybody|whoever|whom|who|no one|someone|anyone|everyone`)},
	{0.3, phrase(`that of|those of|those that|those who|one that|ones that|one of which`)},
	{0.2, phrase(`(?:is|are|was|were) (?:how|when|where|who|why)`)},
	{0.6, phrase(`(?:of|to|for|with|in|by|from|on) (?:which|whom)`)},
	{0.2, phrase(`(?:is|are|has) gone|(?:is|are) left|any more|is none|(?:is|are) there`)},
	{1.3, phrase(`nothing|something|everything|anything`)},
	{0.6, phrase(`the others?|another one|the one|the next one|the last one|none of`)},
	{1.4, phrase(`knows?|known|knew`)},
	{1.0, phrase(`holds|held|has had|have had|had`)},
	{0.2, phrase(`whatever|whichever|wherever`)},
}

// allPhrases limits all phrases together, per 1,000 words.
const allPhrases = 5

func phrase(words string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(?:` + words + `)\b`) }

// TestPlainWords limits the turns of phrase in the comments, messages and pages of the whole tree.
func TestPlainWords(t *testing.T) {
	counts, words := make([]int, len(phrases)), 0
	for _, line := range prose(t) {
		words += len(strings.Fields(line))
		for i, p := range phrases {
			counts[i] += len(p.re.FindAllString(line, -1))
		}
	}
	require.Greater(t, words, 50_000)
	rate, all := func(n int) float64 { return float64(n) * 1000 / float64(words) }, 0
	for i, p := range phrases {
		all += counts[i]
		if rate(counts[i]) > p.limit {
			t.Errorf("%.2f per 1,000 words, limit %v: %v", rate(counts[i]), p.limit, p.re)
		}
	}
	require.LessOrEqual(t, rate(all), float64(allPhrases))
}

// TestSentences limits the length of the sentences of the README and the pages of docs: 30 words,
// and 25 words for 95 % of them.
func TestSentences(t *testing.T) {
	end := regexp.MustCompile(`[.:!?](?:\s|$)`)
	var lengths []int
	for _, page := range pages(t) {
		for _, paragraph := range strings.Split(strings.Join(paragraphs(read(t, page)), "\n"), "\n\n") {
			for _, sentence := range end.Split(paragraph, -1) {
				n := len(strings.Fields(sentence))
				if lengths = append(lengths, n); n > 30 {
					t.Errorf("%s: %d words: %s", page, n, sentence)
				}
			}
		}
	}
	slices.Sort(lengths)
	require.LessOrEqual(t, lengths[len(lengths)*95/100], 25)
}

// prose returns the lines of the tree's comments, messages and pages.
func prose(t *testing.T) (lines []string) {
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		}
		switch filepath.Ext(path) {
		case ".go":
			lines = append(lines, commentsAndMessages(t, path)...)
		case ".md":
			lines = append(lines, paragraphs(read(t, path))...)
		}
		return nil
	}))
	return lines
}

// commentsAndMessages returns the comments of a Go file, without directives, and its string
// literals of at least four words on one line.
func commentsAndMessages(t *testing.T, path string) (out []string) {
	src, err := os.ReadFile(path)
	require.NoError(t, err)
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile(path, -1, len(src)), src, nil, scanner.ScanComments)
	for {
		switch _, tok, lit := s.Scan(); {
		case tok == token.EOF:
			return out
		case tok == token.COMMENT && !strings.HasPrefix(lit, "//go:"):
			out = append(out, strings.Split(lit, "\n")...)
		case tok == token.STRING:
			if text, err := strconv.Unquote(lit); err == nil && len(strings.Fields(text)) >= 4 && !strings.Contains(text, "\n") {
				out = append(out, text)
			}
		}
	}
}

// paragraphs returns the lines of a page outside of its code. Rows of tables, items of lists and
// headings stand apart.
func paragraphs(page string) (out []string) {
	code := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			code = !code
		case code:
		case strings.HasPrefix(line, "|"):
			for cell := range strings.SplitSeq(line, "|") {
				out = append(out, "", cell, "")
			}
		case strings.HasPrefix(line, "#"), strings.HasPrefix(line, "- "):
			out = append(out, "", line)
		default:
			out = append(out, line)
		}
	}
	return out
}
