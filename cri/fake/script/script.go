package script

import (
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
)

// Script is what is to go wrong, and how long things take.
type Script struct {
	// Seed decides what chances and ranges of durations come to: the same
	// script and the same order of calls give the same again. Default 0.
	Seed uint64
	// Rules apply in this order. See Rule.
	Rules []Rule
}

// Rule says what happens to some calls, events or runs of containers. It has a
// counter of its own, which counts what fits Subject and Of, from 1; Which says
// at what counts the rule fires, and Steps what happens then.
type Rule struct {
	// Which says at what counts the rule fires. Zero: at every.
	Which Which
	// Subject is what the rule is about: the name of a call as in the CRI, such
	// as "StopContainer", or AnyCall, AnyEvent, one of the other events, or Run.
	Subject string
	// Of narrows the rule to some objects. Zero: everything, also calls that
	// are about no object.
	Of Selector
	// Steps happen one after the other. At least one. Which ones there may be
	// depends on the subject; see StepKind.
	Steps []Step
}

// Subjects of rules other than the names of calls.
const (
	AnyCall      = "call"          // any call
	AnyEvent     = "event"         // any container event, as it is delivered to a stream
	EventCreated = "event created" // an event of one type
	EventStarted = "event started"
	EventStopped = "event stopped"
	EventDeleted = "event deleted"
	Run          = "run" // the run of a container's program; see Script.Programs
)

// On makes a rule for every occurrence of subject. Nth and its like narrow it.
func On(subject string, steps ...Step) Rule {
	return Rule{Subject: subject, Steps: steps}
}

// OnObject makes a rule for every occurrence of subject that is about what the
// selector selects.
func OnObject(subject string, of Selector, steps ...Step) Rule {
	return Rule{Subject: subject, Of: of, Steps: steps}
}

// Nth returns the rule for the n-th occurrence only, counted from 1.
func (r Rule) Nth(n int) Rule { r.Which = Which{First: n, Last: n}; return r }

// Between returns the rule for the occurrences from first to last.
func (r Rule) Between(first, last int) Rule { r.Which = Which{First: first, Last: last}; return r }

// From returns the rule for the n-th occurrence and all after it.
func (r Rule) From(n int) Rule { r.Which = Which{First: n}; return r }

// EveryNth returns the rule for every n-th occurrence.
func (r Rule) EveryNth(n int) Rule { r.Which = Which{Every: n}; return r }

// Chance returns the rule for a random share of the occurrences, in percent.
func (r Rule) Chance(percent float64) Rule { r.Which = Which{Percent: percent}; return r }

// StepKind is what a step does. The subjects that may have it are in brackets.
type StepKind int

// The kinds of steps.
const (
	// KindTake [call, event, run] lets time pass: Min, or a random time from
	// Min to Max. A rule with nothing but takes is a latency; see Rule. For an
	// event it holds up the stream, with all that comes behind.
	KindTake StepKind = iota + 1
	// KindHang [call, run] lets Min pass; with Min zero, until the call's
	// context ends, or the program is killed. A program that hangs ignores
	// its stop signal.
	KindHang
	// KindDo [call, event] performs the call, or delivers the event. Where no
	// step decides the result it comes by itself at the end.
	KindDo
	// KindFail [call, event, run] gives the result: an error of Code with Text.
	// For an event it breaks the stream; for a run it fails the start. Last.
	KindFail
	// KindExit [ExecSync, run] gives the result: exit code Exit. Text is what
	// the command writes to standard output, or the container's message, and
	// Reason is the container's. Last.
	KindExit
	// KindEmptyReply [call] gives the result: success with an empty reply. Last.
	KindEmptyReply
	// KindRestart [call] restarts the runtime, KindRestartLosingState so that
	// it forgets everything.
	KindRestart
	KindRestartLosingState
	// KindDrop [event] loses the event, KindTwice delivers it twice, KindLate
	// delivers it Min, or up to Max, later than its time, and does not hold up
	// the others, KindSwap after the next event of the stream. Last.
	KindDrop
	KindTwice
	KindLate
	KindSwap
	// KindUntilStopped [run] waits for the stop signal. From then on the
	// program ignores further ones.
	KindUntilStopped
)

// Step is one thing that happens. The constructors fill in what a kind needs;
// other fields are zero.
type Step struct {
	Kind StepKind
	// Min and Max are durations. They are equal when nothing is random.
	Min, Max time.Duration
	// Code is the gRPC code of KindFail.
	Code codes.Code
	// Exit is the exit code of KindExit, 0 to 255.
	Exit int32
	// Reason is the reason of a run's KindExit, a word such as Error. Default
	// "": what the runtime says of the exit code.
	Reason string
	// Text is a message or output. Default "".
	Text string
}

// Take lets d pass.
func Take(d time.Duration) Step { return Step{Kind: KindTake, Min: d, Max: d} }

// TakeBetween lets a random time between least and most pass.
func TakeBetween(least, most time.Duration) Step {
	return Step{Kind: KindTake, Min: least, Max: most}
}

// Hang waits for the end of the call's context; a program ignores its stop signal.
func Hang() Step { return Step{Kind: KindHang} }

// HangFor is Hang for d at most, which is more than zero.
func HangFor(d time.Duration) Step { return Step{Kind: KindHang, Min: d, Max: d} }

// Do performs the call; further steps happen before the caller gets the reply.
func Do() Step { return Step{Kind: KindDo} }

// Fail is the result of a call: an error.
func Fail(code codes.Code, text string) Step { return Step{Kind: KindFail, Code: code, Text: text} }

// Exit is the result of an ExecSync or a container: an exit code.
func Exit(code int32, reason, text string) Step {
	return Step{Kind: KindExit, Exit: code, Reason: reason, Text: text}
}

// EmptyReply is the result of a call: success that says nothing.
func EmptyReply() Step { return Step{Kind: KindEmptyReply} }

// Restart restarts the runtime with its state.
func Restart() Step { return Step{Kind: KindRestart} }

// RestartLosingState restarts the runtime without its state.
func RestartLosingState() Step { return Step{Kind: KindRestartLosingState} }

// Drop loses an event.
func Drop() Step { return Step{Kind: KindDrop} }

// Twice delivers an event twice.
func Twice() Step { return Step{Kind: KindTwice} }

// Late delivers an event d later, while others overtake it.
func Late(d time.Duration) Step { return Step{Kind: KindLate, Min: d, Max: d} }

// Swap delivers an event after the one that follows it.
func Swap() Step { return Step{Kind: KindSwap} }

// UntilStopped is a container that waits for its stop signal.
func UntilStopped() Step { return Step{Kind: KindUntilStopped} }

// Validate tells what is wrong with the first rule that is wrong.
func (s Script) Validate() error {
	for i, r := range s.Rules {
		if field, problem := r.problem(); problem != "" {
			return fmt.Errorf("script: Rules[%d].%s: %s", i, field, problem)
		}
	}
	return nil
}

// Validate tells what is wrong with the rule.
func (r Rule) Validate() error {
	if field, problem := r.problem(); problem != "" {
		return fmt.Errorf("script: %s: %s", field, problem)
	}
	return nil
}

// problem names the first field that is wrong and tells why; "" when none is.
func (r Rule) problem() (field, problem string) {
	if !knownSubject(r.Subject) {
		return "Subject", fmt.Sprintf("%q is no call, event or run", r.Subject)
	}
	if problem := r.Which.problem(); problem != "" {
		return "Which", problem
	}
	if problem := r.Of.problem(r.Subject); problem != "" {
		return "Of", problem
	}
	i, problem := stepsProblem(r.Subject, r.Steps)
	return fmt.Sprintf("Steps[%d]", i), problem
}
