package bubbletest

import (
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/podwright/podwright/internal/run"
)

// minutes is the part of a stack's header with the time of a wait: "goroutine 7 [select, 2 minutes]:".
var minutes = regexp.MustCompile(`, \d+ minutes`)

// stacks returns the stacks of all goroutines.
func stacks() []string {
	buf := make([]byte, 1<<20)
	for {
		if n := runtime.Stack(buf, true); n < len(buf) {
			return strings.Split(minutes.ReplaceAllString(string(buf[:n]), ""), "\n\n")
		}
		buf = make([]byte, 2*len(buf))
	}
}

func ownStack() string {
	var buf [256]byte
	return string(buf[:runtime.Stack(buf[:], false)])
}

// header returns the state of a goroutine and its bubble.
func header(stack string) string {
	line, _, _ := strings.Cut(stack, "\n")
	return line
}

// goroutinesIn returns the stacks of the goroutines in a bubble, without its root.
func goroutinesIn(bubble string) (in []string) {
	for _, s := range stacks() {
		if bubble != "" && run.Bubble(s) == bubble && !strings.Contains(header(s), "[synctest.Run") {
			in = append(in, s)
		}
	}
	return in
}

// watch waits for done. It returns the stacks of the goroutines that stop the clock of the bubble, or
// "". It counts checks instead of reading the clock, so that a paused process does not count.
func watch(bubble <-chan string, done <-chan struct{}, l limits) (stopped string) {
	var number, before string
	var unchanged time.Duration
	select {
	case <-done:
		return ""
	case number = <-bubble:
	}
	if number == "" { // Around runs no bubble
		<-done
		return ""
	}
	for {
		select {
		case <-done:
			return ""
		case <-time.After(l.period):
		}
		all, stopping := blocked(number)
		if unchanged += l.period; all != before {
			before, unchanged = all, 0
		}
		if stopping != "" && unchanged >= l.of(stopping) {
			return stopping
		}
	}
}

// of returns the limit for a bubble with the goroutines that stop its clock.
func (l limits) of(stopping string) time.Duration {
	switch {
	case strings.Contains(stopping, "[IO wait"):
		return l.files
	case strings.Contains(stopping, "[syscall"):
		return l.calls
	}
	return l.locks
}

// blocked returns the stacks of the goroutines in a bubble and the part that stops its clock, if all
// of them are blocked.
func blocked(bubble string) (all, stopping string) {
	var nonDurable []string
	stacks := goroutinesIn(bubble)
	for _, s := range stacks {
		switch state := header(s); {
		case strings.Contains(state, "(durable)"):
		case strings.Contains(state, "[run"): // running, runnable
			return "", ""
		default:
			nonDurable = append(nonDurable, s)
		}
	}
	return strings.Join(stacks, "\n\n"), strings.Join(nonDurable, "\n\n")
}
