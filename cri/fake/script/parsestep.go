package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
)

// parseSteps reads the steps up to the end of the line.
func (p *parser) parseSteps(subject string) ([]Step, error) {
	var steps []Step
	var at []token
	for {
		at = append(at, p.peek())
		step, err := p.parseStep(subject)
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
		if p.peek().end() {
			break
		}
		if !p.accept(",") {
			return nil, p.expected("', then' and another step, or the end of the line")
		}
		p.accept("then")
	}
	if i, problem := stepsProblem(subject, steps); problem != "" {
		return nil, p.fail(at[i], "%s", problem)
	}
	return steps, nil
}

func (p *parser) parseStep(subject string) (Step, error) {
	t := p.peek()
	if t.quoted {
		return Step{}, p.expectedStep(subject)
	}
	if code, ok := codeByName(t.text); ok {
		p.take()
		return Fail(code, p.acceptText()), nil
	}
	all := stepRules()
	i := slices.IndexFunc(all, func(r stepRule) bool { return r.word != "" && r.word == t.text })
	if i < 0 {
		return Step{}, p.expectedStep(subject)
	}
	p.take()
	step := Step{Kind: all[i].kind}
	var err error
	switch step.Kind {
	case KindTake, KindLate:
		step.Min, step.Max, err = p.parseSpan()
	case KindHang:
		if !p.peek().end() && !p.peek().is(",") {
			step.Min, err = p.parseDuration()
			step.Max = step.Min
			if err == nil && step.Min == 0 {
				err = p.fail(t, "a hang of 0s is none")
			}
		}
	case KindExit:
		step.Exit, step.Reason, err = p.parseExit()
		step.Text = p.acceptText()
	case KindEmptyReply:
		err = p.expect("reply")
	case KindUntilStopped:
		err = p.expect("stopped")
	case KindRestart:
		if p.accept("losing") {
			step.Kind = KindRestartLosingState
			err = p.expect("state")
		}
	}
	return step, err
}

// expectedStep names the steps that there are for the subject.
func (p *parser) expectedStep(subject string) error {
	var words []string
	for _, r := range stepRules() {
		if r.where&subjectGroup(subject) != 0 && r.word != "" && !slices.Contains(words, r.word) {
			words = append(words, r.word)
		}
	}
	return p.expected(fmt.Sprintf("a step: %s, or a gRPC code such as Unavailable", strings.Join(words, ", ")))
}

func codeByName(name string) (codes.Code, bool) {
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if code.String() == name {
			return code, true
		}
	}
	return 0, false
}

func (p *parser) acceptText() string {
	if p.peek().quoted {
		return p.take().text
	}
	return ""
}

func (p *parser) parseSpan() (least, most time.Duration, err error) {
	if least, err = p.parseDuration(); err != nil {
		return 0, 0, err
	}
	if !p.accept("to") {
		return least, least, nil
	}
	at := p.peek()
	if most, err = p.parseDuration(); err == nil && most < least {
		err = p.fail(at, "%s is less than %s", duration(most), duration(least))
	}
	return least, most, err
}

func (p *parser) parseDuration() (time.Duration, error) {
	d, err := time.ParseDuration(p.peek().text)
	if err != nil || d < 0 || p.peek().quoted {
		return 0, p.expected("a duration such as 50ms")
	}
	p.take()
	return d, nil
}

func (p *parser) parseExit() (int32, string, error) {
	code, err := strconv.ParseUint(p.peek().text, 10, 8)
	if err != nil || p.peek().quoted {
		return 0, "", p.expected("an exit code from 0 to 255")
	}
	p.take()
	reason := ""
	if t := p.peek(); !t.quoted && !t.end() && !t.is(",") {
		if !isReason(t.text) {
			return 0, "", p.expected("a reason such as Error, or a text")
		}
		reason = p.take().text
	}
	return int32(code), reason, nil
}
