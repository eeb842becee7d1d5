package server

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escapes are the sequences that change the colour or the cursor of a terminal.
var escapes = regexp.MustCompile(`\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])`)

// printable returns a text of a pod without the sequences for terminals. Characters that are
// invisible or reverse the direction of a text become U+FFFD. Tabs and newlines stay.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r >= ' ' && r != 0x7f && !unicode.Is(unicode.Cc, r) && !unicode.Is(unicode.Cf, r) {
			return r
		}
		return utf8.RuneError
	}, strings.ReplaceAll(escapes.ReplaceAllString(text, ""), "\r\n", "\n"))
}
