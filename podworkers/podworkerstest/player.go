package podworkerstest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
)

// player runs one script on Workers in a bubble.
type player struct {
	t            *testing.T
	cfg          podworkers.Config
	rec          *Recorder
	workers      *podworkers.Workers // made by the first command that is not an option
	print        *printer
	pods         map[string]*v1.Pod
	dead         map[types.UID]bool
	owners       map[chan<- struct{}]types.UID // of done channels
	waitingCalls map[types.UID]chan Outcome
	endOfScript  chan struct{} // closed at the end of the script
	shown        int           // number of printed events

	hold bool
	stop context.CancelFunc
	ran  chan error
}

func newPlayer(t *testing.T, o ScriptOptions) *player {
	p := &player{
		t: t, print: newPrinter(), pods: map[string]*v1.Pod{}, dead: map[types.UID]bool{},
		owners: map[chan<- struct{}]types.UID{}, waitingCalls: map[types.UID]chan Outcome{}, endOfScript: make(chan struct{}),
	}
	if o.Config != nil {
		p.cfg = o.Config(t)
	}
	if p.cfg.Jitter == nil {
		p.cfg.Jitter = func() float64 { return 0 }
	}
	p.cfg.TerminalPodStopped = func(uid types.UID) bool { return p.dead[uid] }
	p.rec = Record(&p.cfg)
	if o.Running != nil {
		p.rec.Running(o.Running)
	}
	p.print.since(time.Now())
	return p
}

// begin creates the workers and starts Run.
func (p *player) begin() {
	if p.workers != nil {
		return
	}
	var err error
	if p.workers, err = podworkers.New(p.cfg); err != nil {
		p.t.Fatalf("podworkerstest: %v", err)
	}
	if !p.hold {
		p.run()
	}
}

func (p *player) run() {
	if p.ran != nil {
		p.t.Fatal("podworkerstest: run: Run has already started")
	}
	ctx, cancel := context.WithCancel(p.t.Context())
	p.stop, p.ran = cancel, make(chan error, 1)
	go func() { p.ran <- p.workers.Run(ctx) }()
	synctest.Wait()
}

// close stops all work of the script.
func (p *player) close() {
	close(p.endOfScript)
	if p.ran == nil {
		return
	}
	p.stop()
	if err := <-p.ran; err != nil {
		p.t.Errorf("podworkerstest: Run: %v", err)
	}
	synctest.Wait() // calls that Run did not wait for
}

// play executes commands and returns the events.
func (p *player) play(commands []string) string {
	var out strings.Builder
	for _, line := range commands {
		output, err := p.command(line)
		if err != nil {
			p.t.Fatalf("podworkerstest: %q: %v", line, err)
		}
		synctest.Wait()
		out.WriteString(p.newEvents())
		out.WriteString(output)
		if p.workers == nil {
			continue
		}
		if err := p.rec.Check(p.workers); err != nil {
			p.t.Fatalf("podworkerstest: after %q: %v", line, err)
		}
	}
	return out.String()
}

// newEvents prints the events since the last call. Events of one moment are grouped by pod, because
// the order between pods is not deterministic.
func (p *player) newEvents() string {
	trace := p.rec.Trace()
	events := trace[p.shown:]
	p.shown = len(trace)
	uidOf := func(e podworkers.TraceEvent) types.UID {
		if e.Kind == podworkers.TraceDone {
			return p.owners[e.Done]
		}
		return e.UID
	}
	slices.SortStableFunc(events, func(a, b podworkers.TraceEvent) int {
		if d := a.At.Compare(b.At); d != 0 {
			return d
		}
		return strings.Compare(string(uidOf(a)), string(uidOf(b)))
	})
	var out strings.Builder
	for _, e := range events {
		if !e.Kind.Input() || e.Kind == podworkers.TraceEnd {
			fmt.Fprintf(&out, "%s %s\n", p.print.since(e.At), p.print.text(e))
		}
	}
	return out.String()
}

// send sends an update. It must not take any time (INV-2).
func (p *player) send(u podworkers.Update) (string, error) {
	p.begin()
	before := time.Now()
	err := p.workers.UpdatePod(u)
	if took := time.Since(before); took > 0 {
		p.t.Errorf("INV-2: UpdatePod took %v", took)
	}
	if err != nil {
		return fmt.Sprintf("refused: %v\n", err), nil
	}
	return "", nil
}

// untilEnd makes a call wait for the script's end command.
func (p *player) untilEnd(uid types.UID) Outcome {
	return func(ctx context.Context, w podworkers.Work) (bool, error) {
		uid := uid
		if uid == "" && w.Pod != nil {
			uid = w.Pod.UID
		}
		end := make(chan Outcome, 1)
		p.rec.mu.Lock()
		p.waitingCalls[uid] = end
		p.rec.mu.Unlock()
		select {
		case outcome := <-end:
			return outcome(ctx, w)
		case <-p.endOfScript:
			return false, context.Canceled
		}
	}
}

func (p *player) endCall(uid types.UID, outcome Outcome) error {
	p.rec.mu.Lock()
	end := p.waitingCalls[uid]
	delete(p.waitingCalls, uid)
	p.rec.mu.Unlock()
	if end == nil {
		return fmt.Errorf("no call of %s waits for end", uid)
	}
	end <- outcome
	return nil
}
