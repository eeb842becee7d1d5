package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Parse reads a script. The error is a *ParseError.
func Parse(text string) (Script, error) {
	var s Script
	seeded := false
	for i, line := range strings.Split(text, "\n") {
		tokens, column, problem := lex(line)
		if problem != "" {
			return Script{}, &ParseError{Line: i + 1, Column: column, Problem: problem}
		}
		p := &parser{line: i + 1, tokens: tokens}
		if tokens[0].is("seed") {
			if seeded {
				return Script{}, p.fail(tokens[0], "a second 'seed' in one script")
			}
			seeded = true
		}
		if err := p.parseLine(&s); err != nil {
			return Script{}, err
		}
	}
	return s, nil
}

// ParseRule reads one rule. The error is a *ParseError.
func ParseRule(text string) (Rule, error) {
	s, err := Parse(text)
	if err != nil {
		return Rule{}, err
	}
	if len(s.Rules) != 1 {
		return Rule{}, &ParseError{Line: 1, Column: 1, Problem: fmt.Sprintf("found %d rules, expected one", len(s.Rules))}
	}
	return s.Rules[0], nil
}

// parser reads the tokens of a line.
type parser struct {
	line   int
	tokens []token
	next   int
}

func (p *parser) peek() token { return p.tokens[p.next] }

// take returns the next token and goes on, but never beyond the line's end.
func (p *parser) take() token {
	t := p.tokens[p.next]
	if p.next < len(p.tokens)-1 {
		p.next++
	}
	return t
}

// accept takes the next token if it is the given word or mark.
func (p *parser) accept(text string) bool {
	if p.peek().is(text) && text != "" {
		p.take()
		return true
	}
	return false
}

func (p *parser) fail(at token, format string, args ...any) error {
	return &ParseError{Line: p.line, Column: at.column, Problem: fmt.Sprintf(format, args...)}
}

func (p *parser) expected(what string) error {
	return p.fail(p.peek(), "found %v, expected %s", p.peek(), what)
}

// expect takes the given word or mark, or fails.
func (p *parser) expect(text string) error {
	if !p.accept(text) {
		return p.expected("'" + text + "'")
	}
	return nil
}

func (p *parser) parseLine(s *Script) error {
	if p.peek().end() {
		return nil
	}
	if p.accept("seed") {
		seed, err := strconv.ParseUint(p.peek().text, 10, 64)
		if err != nil || p.peek().quoted {
			return p.expected("a number, the seed")
		}
		p.take()
		s.Seed = seed
		return p.parseEnd("the end of the line")
	}
	r, err := p.parseRule()
	if err != nil {
		return err
	}
	s.Rules = append(s.Rules, r)
	return nil
}

func (p *parser) parseEnd(expected string) error {
	if !p.peek().end() {
		return p.expected(expected)
	}
	return nil
}

func (p *parser) parseRule() (Rule, error) {
	var r Rule
	start := p.peek()
	which, err := p.parseWhich()
	if err != nil {
		return r, err
	}
	if problem := which.problem(); problem != "" {
		return r, p.fail(start, "%s", problem)
	}
	r.Which = which
	if r.Subject, err = p.parseSubject(); err != nil {
		return r, err
	}
	object := p.peek()
	if r.Of, err = p.parseSelector(); err != nil {
		return r, err
	}
	if problem := r.Of.problem(r.Subject); problem != "" {
		return r, p.fail(object, "%s", problem)
	}
	if !p.accept(":") {
		return r, p.expected("'of' and an object, or ':' and steps")
	}
	r.Steps, err = p.parseSteps(r.Subject)
	return r, err
}

// parseWhich reads what stands before the subject, which may be nothing.
func (p *parser) parseWhich() (Which, error) {
	if p.accept("every") {
		if n, ok := p.acceptOrdinal(); ok {
			return Which{Every: n}, nil
		}
		return Which{}, p.looksLikeOrdinal()
	}
	if p.accept("from") {
		p.accept("the")
		n, ok := p.acceptOrdinal()
		if !ok {
			return Which{}, p.expectedOrdinal()
		}
		return Which{First: n}, nil
	}
	if number, ok := strings.CutSuffix(p.peek().text, "%"); ok && !p.peek().quoted {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil || !(percent > 0 && percent <= 100) {
			return Which{}, p.expected("a chance of more than 0% and up to 100%")
		}
		p.take()
		return Which{Percent: percent}, p.expect("of")
	}
	first, ok := p.acceptOrdinal()
	if !ok {
		return Which{}, p.looksLikeOrdinal()
	}
	if !p.accept("to") {
		return Which{First: first, Last: first}, nil
	}
	last, ok := p.acceptOrdinal()
	if !ok {
		return Which{}, p.expectedOrdinal()
	}
	return Which{First: first, Last: last}, nil
}

// acceptOrdinal takes an ordinal such as 2nd.
func (p *parser) acceptOrdinal() (int, bool) {
	t := p.peek()
	if t.quoted || len(t.text) < 3 {
		return 0, false
	}
	n, err := strconv.Atoi(t.text[:len(t.text)-2])
	if err != nil || n < 1 || ordinal(n) != t.text {
		return 0, false
	}
	p.take()
	return n, true
}

// looksLikeOrdinal fails for a word that begins with a digit, which no subject does.
func (p *parser) looksLikeOrdinal() error {
	if t := p.peek(); t.text != "" && !t.quoted && t.text[0] >= '0' && t.text[0] <= '9' {
		return p.expectedOrdinal()
	}
	return nil
}

func (p *parser) expectedOrdinal() error {
	text := p.peek().text
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	if n, err := strconv.Atoi(text[:digits]); err == nil && n > 0 && !p.peek().quoted {
		return p.expected("'" + ordinal(n) + "'")
	}
	return p.expected("a count such as '2nd'")
}

func (p *parser) parseSubject() (string, error) {
	t := p.peek()
	if t.is(AnyEvent) {
		p.take()
		if typed := AnyEvent + " " + p.peek().text; knownSubject(typed) && !p.peek().quoted {
			p.take()
			return typed, nil
		}
		if !p.peek().is(":") && !p.peek().is("of") {
			return "", p.expected("created, started, stopped, deleted, 'of' or ':'")
		}
		return AnyEvent, nil
	}
	if t.quoted || !knownSubject(t.text) {
		if p.next > 0 {
			return "", p.expected("the name of a call, 'call', 'event' or 'run'")
		}
		return "", p.expected("'seed', a count such as '2nd', 'every', 'from', '10% of', the name of a call, 'call', 'event' or 'run'")
	}
	p.take()
	return t.text, nil
}

func (p *parser) parseSelector() (Selector, error) {
	var s Selector
	var seen []string
	for p.accept("of") {
		t := p.peek()
		word := t.text
		if t.quoted || !slices.Contains([]string{"container", "sandbox", "pod", "uid", "image"}, word) {
			return s, p.expected("container, sandbox, pod, uid or image")
		}
		if slices.Contains(seen, word) || (word == "sandbox" && s.Kind != AnyKind) || (word == "container" && s.Kind != AnyKind) {
			return s, p.fail(t, "a second '%s' in one rule", word)
		}
		seen = append(seen, word)
		p.take()
		if err := p.parseObject(&s, word); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (p *parser) parseObject(s *Selector, word string) (err error) {
	switch word {
	case "container":
		s.Kind = ContainerKind
		if t := p.peek(); t.quoted || !slices.Contains([]string{"", ":", ",", "of", "attempt"}, t.text) {
			s.Container, err = p.parseName("a container's name")
		}
		return orElse(err, func() error { return p.parseAttempt(s) })
	case "sandbox":
		s.Kind = SandboxKind
		return p.parseAttempt(s)
	case "pod":
		at := p.peek()
		name, err := p.parseName("a pod's name")
		s.Namespace, s.Pod = splitPod(name)
		bad := s.Pod == "" || strings.Contains(s.Pod, "/") || (s.Namespace == "" && s.Pod != name)
		if err == nil && bad {
			return p.fail(at, "found %v, expected name or namespace/name", at)
		}
		return err
	case "uid":
		s.UID, err = p.parseName("a UID")
	case "image":
		s.Image, err = p.parseName("an image's name")
	}
	return err
}

func orElse(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
}

func (p *parser) parseAttempt(s *Selector) error {
	if !p.accept("attempt") {
		return nil
	}
	n, err := strconv.ParseUint(p.peek().text, 10, 32)
	if err != nil || p.peek().quoted {
		return p.expected("the number of an attempt")
	}
	p.take()
	attempt := uint32(n)
	s.Attempt = &attempt
	return nil
}

// parseName takes a word or a quoted string that is not empty.
func (p *parser) parseName(what string) (string, error) {
	t := p.peek()
	if t.text == "" || (!t.quoted && (t.text == ":" || t.text == "," || slices.Contains(keywords(), t.text))) {
		return "", p.expected(what)
	}
	p.take()
	return t.text, nil
}
