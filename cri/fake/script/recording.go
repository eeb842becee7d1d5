package script

import (
	"cmp"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// keptOutput is how much output of a command goes into a script.
const keptOutput = 1024

// recording is what a Recorder has seen. Calls and events are in the order in
// which they count.
type recording struct {
	calls  []*callRecord
	events []*eventRecord
	lives  map[string]*life // by container ID
}

// callRecord is one call.
type callRecord struct {
	number             int // among all calls
	name               string
	object             Object
	container, sandbox string // IDs
	grace              time.Duration
	start, end         time.Time
	done               bool
	calledOff          bool // the caller's context ended
	code               codes.Code
	text               string
	exit               int32 // of ExecSync
	output             string
}

// eventRecord is one event as it reached a stream.
type eventRecord struct {
	subject string
	object  Object
	at      time.Time
	lag     time.Duration
	twice   bool
}

// life is one run of a container.
type life struct {
	id, sandbox string
	object      Object
	begin       time.Time // of StartContainer, or of the program
	started     time.Time // zero while not seen
	finished    time.Time // zero while not seen
	known       int       // the calls that had begun when its end was first seen
	exit        int32
	reason      string
	message     string
	startFailed string // the error of StartContainer
}

// started takes note of a StartContainer that has ended.
func (r *recording) started(c *callRecord) {
	if c.object.Kind != ContainerKind {
		return
	}
	l := r.life(c.container, c.sandbox, c.object)
	l.object = c.object // an event before knew the image by another name
	l.begin = c.start
	if c.code == codes.Unknown {
		l.startFailed = c.text
	}
}

func (r *recording) life(id, sandbox string, o Object) *life {
	if r.lives[id] == nil {
		r.lives[id] = &life{id: id, sandbox: sandbox, object: o}
	}
	return r.lives[id]
}

// seen takes note of a container's status.
func (r *recording) seen(o Object, sandbox string, s *runtimeapi.ContainerStatus) {
	if s.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED || o.Kind != ContainerKind {
		return
	}
	l := r.life(s.GetId(), sandbox, o)
	if s.GetStartedAt() > 0 {
		l.started = time.Unix(0, s.GetStartedAt())
		if l.begin.IsZero() {
			l.begin = l.started
		}
	}
	if s.GetFinishedAt() > 0 {
		if l.finished.IsZero() {
			l.known = len(r.calls)
		}
		l.finished, l.exit = time.Unix(0, s.GetFinishedAt()), s.GetExitCode()
		l.reason, l.message = s.GetReason(), s.GetMessage()
	}
}

// moment is a rule to be and when it came into play.
type moment struct {
	at   time.Time
	rule Rule
	n    int
}

// script makes the rules, in the order of time.
func (r *recording) script(round time.Duration) Script {
	ends := r.endings()
	moments := slices.Concat(r.callMoments(ends, round), r.eventMoments(round), r.runMoments(ends, round))
	slices.SortStableFunc(moments, func(a, b moment) int { return a.at.Compare(b.at) })
	return Script{Rules: joined(moments)}
}

// joined makes one rule of those that say the same of consecutive counts.
func joined(moments []moment) []Rule {
	var rules []Rule
	last := map[string]int{} // by subject and object
	for _, m := range moments {
		key := m.rule.Subject + " " + m.rule.Of.String()
		if i, ok := last[key]; ok && rules[i].Which.Last == m.n-1 && slices.Equal(rules[i].Steps, m.rule.Steps) {
			rules[i].Which.Last = m.n
			continue
		}
		last[key] = len(rules)
		rules = append(rules, m.rule.Nth(m.n))
	}
	return rules
}

// exactly selects an object and, within a pod name, nothing else.
func exactly(o Object) Selector {
	switch {
	case o.Kind == ContainerKind && o.Container != "" && o.Pod != "":
		return Selector{Kind: ContainerKind, Container: o.Container, Namespace: o.Namespace, Pod: o.Pod}.WithAttempt(o.Attempt)
	case o.Kind == SandboxKind && o.Pod != "":
		return Selector{Kind: SandboxKind, Namespace: o.Namespace, Pod: o.Pod}.WithAttempt(o.Attempt)
	case o.Kind == AnyKind:
		return Selector{Image: o.Image}
	}
	return Selector{}
}

// counter numbers occurrences as the rules about them will.
type counter map[string]int

// count returns the number of an occurrence among those that its selector fits.
// A rule without an object fits all of its subject.
func (c counter) count(subject string, of Selector) int {
	c[subject]++
	if of.empty() {
		return c[subject]
	}
	key := subject + " " + of.String()
	c[key]++
	return c[key]
}

func (r *recording) callMoments(ends endings, round time.Duration) []moment {
	var all []moment
	counts := counter{}
	for _, c := range r.calls {
		of := exactly(c.object)
		n := counts.count(c.name, of)
		if steps := r.stepsOf(c, ends, round); steps != nil {
			all = append(all, moment{c.start, OnObject(c.name, of, steps...), n})
		}
	}
	return all
}

// stepsOf says what happened to a call, nil when that is nothing of note.
func (r *recording) stepsOf(c *callRecord, ends endings, round time.Duration) []Step {
	took := c.end.Sub(c.start)
	switch {
	case !c.done || (c.calledOff && c.name == callEvents):
		return nil
	case c.calledOff && c.code != codes.OK:
		return []Step{Do(), Hang()}
	case c.name == callEvents && c.code != codes.Unimplemented:
		return append(timed([]Step{Do()}, took, round), outcomeOf(c)...)
	case c.name == "StartContainer" && r.failedToStart(c):
		return timed(nil, took, round)
	case c.code != codes.OK:
		return append(timed(nil, took, round), outcomeOf(c)...)
	case c.name == callExecSync && printable(c.output) && (c.exit != 0 || c.output != ""):
		return append(timed(nil, took, round), Exit(c.exit, "", c.output))
	case c.name == callExecSync && c.exit != 0:
		return append(timed(nil, took, round), Exit(c.exit, "", ""))
	}
	lead, tail := aroundStop(c, ends.last[c], took)
	steps := timed(nil, lead, round)
	if after := timed(nil, tail, round); after != nil {
		steps = append(append(steps, Do()), after...)
	}
	return steps
}

func printable(output string) bool { return len(output) <= keptOutput && utf8.ValidString(output) }

func outcomeOf(c *callRecord) []Step {
	if c.code == codes.OK {
		return []Step{EmptyReply()}
	}
	return []Step{Fail(c.code, c.text)}
}

func timed(steps []Step, d, round time.Duration) []Step {
	if d = d.Round(round); d > 0 {
		steps = append(steps, Take(d))
	}
	return steps
}

// aroundStop splits the time of a call that ended containers, last the given one,
// into what came before and after that; the rest is the container's own time, or
// the grace.
func aroundStop(c *callRecord, last *life, took time.Duration) (lead, tail time.Duration) {
	if last == nil {
		return took, 0
	}
	tail = max(0, c.end.Sub(last.finished))
	if last.killed() {
		lead = max(0, last.finished.Sub(c.start)-c.grace)
	}
	return lead, tail
}

// killed tells whether the container did not end by its stop signal.
func (l *life) killed() bool { return l.exit == 137 && l.reason != reasonOOMKilled }

// endings says which call ended which container.
type endings struct {
	by   map[*life]*callRecord // none for containers that ended by themselves
	last map[*callRecord]*life // the last one that the call ended
}

func (r *recording) endings() endings {
	ends := endings{by: map[*life]*callRecord{}, last: map[*callRecord]*life{}}
	calls := map[string][]*callRecord{} // by what they end: a container, or all of a sandbox
	for _, c := range r.calls {
		if id := c.endsWhat(); id != "" {
			calls[id] = append(calls[id], c)
		}
	}
	for _, l := range r.lives {
		for _, c := range slices.Concat(calls[l.id], calls[l.sandbox]) {
			if first := ends.by[l]; c.ends(l) && (first == nil || c.start.Before(first.start)) {
				ends.by[l] = c
			}
		}
		if c := ends.by[l]; c != nil && (ends.last[c] == nil || l.finished.After(ends.last[c].finished)) {
			ends.last[c] = l
		}
	}
	return ends
}

// endsWhat gives the ID of the container, or of the sandbox whose containers, a
// call is to end; "" when it is none of those calls.
func (c *callRecord) endsWhat() string {
	switch c.name {
	case "StopContainer", "RemoveContainer":
		return c.container
	case "StopPodSandbox", "RemovePodSandbox":
		return c.sandbox
	}
	return ""
}

// ends tells whether a call that is to end a container came in time, and did. A
// stop that was called off has still sent its signal. Where time is virtual, times
// are not enough: a caller that learns of an end and cleans up does so in the
// moment of the end.
func (c *callRecord) ends(l *life) bool {
	if l.finished.IsZero() || c.start.After(l.finished) || c.number >= l.known {
		return false
	}
	running := !c.done || !c.end.Before(l.finished)
	return running || (c.name == "StopContainer" && c.code != codes.OK && c.calledOff)
}

func (r *recording) failedToStart(c *callRecord) bool {
	l := r.lives[c.container]
	return l != nil && l.startFailed != "" && l.reason != ordinaryReason(l.exit)
}

func (r *recording) runMoments(ends endings, round time.Duration) []moment {
	lives := make([]*life, 0, len(r.lives))
	for _, l := range r.lives {
		if !l.begin.IsZero() {
			lives = append(lives, l)
		}
	}
	slices.SortFunc(lives, func(a, b *life) int { return cmp.Or(a.begin.Compare(b.begin), cmp.Compare(a.id, b.id)) })
	var all []moment
	counts := counter{}
	for _, l := range lives {
		of := exactly(l.object)
		n := counts.count(Run, of)
		if steps := runSteps(l, ends.by[l], round); steps != nil {
			all = append(all, moment{l.begin, OnObject(Run, of, steps...), n})
		}
	}
	return all
}

// runSteps says what a container did that a call ended, or none; nil when its end
// was not seen.
func runSteps(l *life, by *callRecord, round time.Duration) []Step {
	switch {
	case l.startFailed != "" && !l.finished.IsZero():
		return []Step{Fail(codes.Unknown, l.startFailed)}
	case l.finished.IsZero() || l.started.IsZero():
		return nil
	case by != nil && l.killed():
		return []Step{Hang()}
	}
	exit := Exit(min(max(l.exit, 0), 255), "", l.message)
	if l.reason != ordinaryReason(l.exit) && isReason(l.reason) {
		exit.Reason = l.reason
	}
	if by != nil {
		return append(timed([]Step{UntilStopped()}, l.finished.Sub(by.start), round), exit)
	}
	return append(timed(nil, l.finished.Sub(l.started), round), exit)
}

// ordinaryReason is what runtimes say of an exit code.
func ordinaryReason(code int32) string {
	if code == 0 {
		return "Completed"
	}
	return "Error"
}

func (r *recording) eventMoments(round time.Duration) []moment {
	var all []moment
	counts := counter{}
	for _, e := range r.events {
		of := exactly(e.object)
		n := counts.count(e.subject, of)
		lag := e.lag.Round(round)
		var steps []Step
		switch {
		case e.twice:
			steps = append(timed(nil, lag, round), Twice())
		case lag > 0:
			steps = []Step{Late(lag)}
		default:
			continue
		}
		all = append(all, moment{e.at, OnObject(e.subject, of, steps...), n})
	}
	return all
}
