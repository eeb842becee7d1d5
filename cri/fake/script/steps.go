package script

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
)

// group is a set of subjects whose rules may have the same steps.
type group int

const (
	calls group = 1 << iota
	events
	runs
	execs // ExecSync, besides being a call
)

// stepRule says where a kind of step may be.
type stepRule struct {
	kind StepKind
	// word begins it in a script's text; KindFail has the codes instead.
	word  string
	where group
	last  bool // nothing comes after it
	once  bool
	// first: nothing but takes comes before it.
	first bool
}

// stepRules is the table of steps.
func stepRules() []stepRule {
	return []stepRule{
		{kind: KindTake, word: "take", where: calls | events | runs},
		{kind: KindHang, word: "hang", where: calls | runs},
		{kind: KindDo, word: "do", where: calls | events, once: true},
		{kind: KindFail, where: calls | events | runs, last: true},
		{kind: KindExit, word: "exit", where: execs | runs, last: true},
		{kind: KindEmptyReply, word: "empty", where: calls, last: true},
		{kind: KindRestart, word: "restart", where: calls},
		{kind: KindRestartLosingState, word: "restart", where: calls},
		{kind: KindDrop, word: "drop", where: events, last: true, first: true},
		{kind: KindTwice, word: "twice", where: events, last: true, first: true},
		{kind: KindLate, word: "late", where: events, last: true, first: true},
		{kind: KindSwap, word: "swap", where: events, last: true, first: true},
		{kind: KindUntilStopped, word: "until", where: runs},
	}
}

func ruleOf(kind StepKind) (stepRule, bool) {
	all := stepRules()
	i := slices.IndexFunc(all, func(r stepRule) bool { return r.kind == kind })
	if i < 0 {
		return stepRule{}, false
	}
	return all[i], true
}

// decides tells whether the step gives the result.
func (k StepKind) decides() bool {
	return k == KindFail || k == KindExit || k == KindEmptyReply
}

func subjectGroup(subject string) group {
	switch {
	case subject == Run:
		return runs
	case subject == AnyEvent || strings.HasPrefix(subject, AnyEvent+" "):
		return events
	case subject == callExecSync:
		return calls | execs
	}
	return calls
}

// stepsProblem tells which step of a rule is wrong and why; "" when none is.
func stepsProblem(subject string, steps []Step) (int, string) {
	if len(steps) == 0 {
		return 0, "a rule needs a step"
	}
	group := subjectGroup(subject)
	seen := map[StepKind]bool{}
	onlyTakes := true
	for i, step := range steps {
		r, ok := ruleOf(step.Kind)
		name := r.name(step)
		switch {
		case !ok:
			return i, "there is no such Kind"
		case r.where&group == 0:
			return i, fmt.Sprintf("%s is no step of %s", name, article(subject))
		case r.last && i < len(steps)-1:
			return i + 1, fmt.Sprintf("nothing can come after %s", name)
		case r.once && seen[step.Kind]:
			return i, fmt.Sprintf("a rule has one %s at most", name)
		case r.first && !onlyTakes:
			return i, fmt.Sprintf("only take can come before %s", name)
		case group == runs && step.Kind == KindFail && !onlyTakes:
			return i, "only take can come before an error that fails the start"
		}
		if problem := step.problem(group, r); problem != "" {
			return i, problem
		}
		seen[step.Kind] = true
		onlyTakes = onlyTakes && step.Kind == KindTake
		if step.Kind == KindHang && step.Min == 0 && i < len(steps)-1 {
			return i + 1, "nothing can come after a hang without end"
		}
	}
	return 0, ""
}

func (r stepRule) name(step Step) string {
	if r.kind == KindFail {
		return step.Code.String()
	}
	return r.word
}

func article(subject string) string {
	switch {
	case subject == Run:
		return "a run"
	case subjectGroup(subject) == events:
		return "an event"
	case subject == AnyCall:
		return "a call"
	}
	return subject
}

// problem tells what is wrong with the step's values, "" when nothing is.
func (s Step) problem(group group, r stepRule) string {
	timed := s.Kind == KindTake || s.Kind == KindHang || s.Kind == KindLate
	switch {
	case s.Min < 0:
		return "a duration is not negative"
	case s.Max < s.Min:
		return fmt.Sprintf("%s is less than %s", duration(s.Max), duration(s.Min))
	case s.Kind == KindHang && s.Max != s.Min:
		return "a hang has no range"
	case !timed && s.Max != 0:
		return r.name(s) + " takes no duration"
	case s.Kind == KindFail && (s.Code == codes.OK || s.Code > codes.Unauthenticated):
		return fmt.Sprintf("%s is no error", s.Code)
	case s.Kind != KindFail && s.Code != codes.OK:
		return r.name(s) + " takes no code"
	case s.Kind != KindFail && s.Kind != KindExit && s.Text != "":
		return r.name(s) + " takes no text"
	}
	return s.exitProblem(group)
}

func (s Step) exitProblem(group group) string {
	switch {
	case s.Kind != KindExit && (s.Exit != 0 || s.Reason != ""):
		return "only exit has an exit code and a reason"
	case s.Exit < 0 || s.Exit > 255:
		return "an exit code is from 0 to 255"
	case s.Reason != "" && group != runs:
		return "only a run has a reason"
	case s.Reason != "" && !isReason(s.Reason):
		return "a reason is a word such as Error, of letters and digits, that begins with a capital"
	}
	return ""
}

const reasonOOMKilled = "OOMKilled"

// isReason tells whether a word is a reason, as runtimes have them.
func isReason(word string) bool {
	for i, c := range word {
		letter := c >= 'A' && c <= 'Z' || i > 0 && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9')
		if !letter {
			return false
		}
	}
	return word != ""
}
