package script

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// String writes the script as text that Parse reads as the same value.
func (s Script) String() string {
	var text strings.Builder
	if s.Seed != 0 {
		text.WriteString("seed " + strconv.FormatUint(s.Seed, 10) + "\n")
	}
	for _, r := range s.Rules {
		text.WriteString(r.String() + "\n")
	}
	return text.String()
}

// String writes the rule as one line.
func (r Rule) String() string {
	words := []string{r.Which.String(), r.Subject}
	if of := r.Of.String(); of != "" {
		words = append(words, of)
	}
	steps := make([]string, len(r.Steps))
	for i, step := range r.Steps {
		steps[i] = step.String()
	}
	return strings.Join(words, " ") + ": " + strings.Join(steps, ", then ")
}

// String writes the step as in a rule.
func (s Step) String() string {
	switch s.Kind {
	case KindTake:
		return "take " + span(s)
	case KindHang:
		if s.Min == 0 {
			return "hang"
		}
		return "hang " + duration(s.Min)
	case KindFail:
		return s.Code.String() + optionalText(s.Text)
	case KindExit:
		text := "exit " + strconv.Itoa(int(s.Exit))
		if s.Reason != "" {
			text += " " + s.Reason
		}
		return text + optionalText(s.Text)
	case KindLate:
		return "late " + span(s)
	case KindEmptyReply:
		return "empty reply"
	case KindRestartLosingState:
		return "restart losing state"
	case KindUntilStopped:
		return "until stopped"
	}
	r, _ := ruleOf(s.Kind)
	return r.word
}

func span(s Step) string {
	if s.Min == s.Max {
		return duration(s.Min)
	}
	return duration(s.Min) + " to " + duration(s.Max)
}

// duration writes 1m rather than 1m0s, and in ASCII.
func duration(d time.Duration) string {
	text := strings.Replace(d.String(), "µ", "u", 1)
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func optionalText(text string) string {
	if text == "" {
		return ""
	}
	return " " + strconv.Quote(text)
}

func uitoa(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// keywords are the words that can follow where a name may be left out.
func keywords() []string { return []string{"of", "attempt"} }

// quoteName writes a name as it is where that can be read back.
func quoteName(name string) string {
	plain := name != "" && name == strings.Trim(name, ":") && utf8.ValidString(name) && !slices.Contains(keywords(), name)
	for _, c := range name {
		plain = plain && isWord(c)
	}
	if plain {
		return name
	}
	return strconv.Quote(name)
}

// isWord tells whether words without quotes may have the character.
func isWord(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-/:@%+", c)
}
