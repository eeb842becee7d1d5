package script

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/internal/required"
)

// Config is what a Player plays, and on what.
type Config struct {
	// Script is what happens. Rules about runs are not the player's: see
	// Script.Programs. The zero value changes nothing.
	Script Script
	// Runtime does what calls ask for. Required.
	Runtime cri.RuntimeService
	// Images does the same for images. nil: Runtime, if it is an ImageService.
	Images cri.ImageService
	// Restart restarts the runtime, with its state or without. It must not wait
	// for calls to end, since it is called within one; ctx is that call's. An
	// error fails the call with code Internal. Required if the script restarts.
	// The example shows that of the fake.
	Restart func(ctx context.Context, keepState bool) error
	// Observe is called after each call, GetContainerEvents included. It must
	// be safe for concurrent use. nil: nobody is told.
	Observe func(Call)
}

// Call is a call that has ended.
type Call struct {
	// Name is the name of the call, such as "StopContainer".
	Name string
	// Object is what it was about.
	Object Object
	// Start is when it began, and Duration how long the caller waited.
	Start    time.Time
	Duration time.Duration
	// Err is what the caller got.
	Err error
	// Rules are the rules that took effect, as indexes into Script.Rules.
	Rules []int
}

// Player is a runtime with a script: it implements cri.RuntimeService and
// cri.ImageService. Safe for concurrent use. It needs no closing, and nothing of
// it runs outside of calls.
type Player struct {
	services
	cfg     Config
	matcher *matcher
	ids     *identities
	objects bool // some rule, or the observer, asks for objects
}

var (
	_ cri.RuntimeService = (*Player)(nil)
	_ cri.ImageService   = (*Player)(nil)
)

// New makes a player.
func New(cfg Config) (*Player, error) {
	if err := required.Field("script: Config.Runtime", cfg.Runtime); err != nil {
		return nil, err
	}
	if cfg.Images == nil {
		images, ok := cfg.Runtime.(cri.ImageService)
		if !ok {
			return nil, errors.New("script: Config.Images is required, since Runtime has no images")
		}
		cfg.Images = images
	}
	if err := cfg.Script.Validate(); err != nil {
		return nil, err
	}
	p := &Player{cfg: cfg, matcher: newMatcher(cfg.Script), ids: newIdentities(cfg.Runtime), objects: cfg.Observe != nil}
	p.services = services{runtime: cfg.Runtime, images: cfg.Images, around: p.around, stream: p.getEvents}
	for _, r := range cfg.Script.Rules {
		p.objects = p.objects || !r.Of.empty()
		if cfg.Restart == nil && slices.ContainsFunc(r.Steps, Step.restarts) {
			return nil, fmt.Errorf("script: Config.Restart is required by rule %q", r)
		}
	}
	return p, nil
}

func (s Step) restarts() bool { return s.Kind == KindRestart || s.Kind == KindRestartLosingState }

// Script returns the script that is played.
func (p *Player) Script() Script {
	return Script{Seed: p.matcher.seed, Rules: cloneRules(p.matcher.rules)}
}

// Fired tells for each rule of the script how often it came into play. Rules
// about runs stay at zero: they count in what Script.Programs returns.
func (p *Player) Fired() []Firing { return p.matcher.firings() }

// Unused returns the rules about calls and events that have not fired: in a test of
// some rules there should be none. Print them as a Script, one per line.
func (p *Player) Unused() []Rule {
	var unused []Rule
	for _, f := range p.Fired() {
		if f.Fired == 0 && f.Rule.Subject != Run {
			unused = append(unused, f.Rule)
		}
	}
	return unused
}

// around makes one call as the script wants it.
func (p *Player) around(ctx context.Context, x *exchange) error {
	return p.observed(ctx, x.call, x.about, func(plan plan) error {
		do := x.do
		x.do = func(ctx context.Context) error {
			err := do(ctx)
			if err == nil && p.objects {
				p.ids.learn(x)
			}
			return err
		}
		return p.perform(ctx, plan, x)
	})
}

// observed finds out what is to happen to a call, and tells the observer how it went.
func (p *Player) observed(ctx context.Context, call string, about about, perform func(plan) error) error {
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	var object Object
	if p.objects {
		object = p.ids.object(ctx, about)
	}
	plan := p.matcher.decide(call, &object)
	start := time.Now()
	err := perform(plan)
	if p.cfg.Observe != nil {
		p.cfg.Observe(Call{
			Name: call, Object: object, Start: start, Duration: time.Since(start), Err: err, Rules: plan.rules,
		})
	}
	return err
}

// perform takes the steps of a plan, with the call itself among them.
func (p *Player) perform(ctx context.Context, plan plan, x *exchange) error {
	if err := wait(ctx, plan.latency); err != nil {
		return err
	}
	done := false
	var result error
	for _, step := range plan.steps {
		switch {
		case step.Kind == KindDo:
			done = true
			result = x.do(ctx)
		case step.Kind.decides():
			x.clear()
			return outcome(x.call, step)
		default:
			if err := p.pause(ctx, step); err != nil {
				x.clear()
				return err
			}
		}
	}
	if !done {
		return x.do(ctx)
	}
	return result
}

// pause takes a step that gives no result.
func (p *Player) pause(ctx context.Context, step Step) error {
	switch {
	case step.restarts():
		if err := p.cfg.Restart(ctx, step.Kind == KindRestart); err != nil {
			return &faultError{code: codes.Internal, text: "script: restart: " + err.Error(), cause: err}
		}
		return nil
	case step.Kind == KindHang && step.Min == 0:
		<-ctx.Done()
		return contextError(ctx)
	}
	return wait(ctx, step.Min)
}

// outcome is the result that a step gives.
func outcome(call string, step Step) error {
	switch step.Kind {
	case KindExit:
		// Code 0 tells ExecSync that the command has succeeded.
		return &cri.ExitError{Code: step.Exit, Stdout: []byte(step.Text)}
	case KindFail:
		return fault(call, step)
	}
	return nil
}

// fault makes the error of a step as the client makes it of the same code.
func fault(call string, step Step) error {
	e := &faultError{code: step.Code, text: step.Text, plain: call == Run}
	if step.Code == codes.DeadlineExceeded {
		e.cause = context.DeadlineExceeded
		if call == callExecSync {
			e.cause = errors.Join(context.DeadlineExceeded, cri.ErrExecTimeout)
		}
	}
	return e
}

// faultError is an error with a gRPC status and a cause.
type faultError struct {
	code  codes.Code
	text  string
	cause error
	// plain is an error that becomes part of another.
	plain bool
}

// Error writes the error as a gRPC status does.
func (e *faultError) Error() string {
	if e.plain {
		return e.text
	}
	return e.GRPCStatus().Err().Error()
}

func (e *faultError) Unwrap() error { return e.cause }

// GRPCStatus makes status.Code work on the error, here and over the wire.
func (e *faultError) GRPCStatus() *status.Status { return status.New(e.code, e.text) }

// contextError gives the end of a context the code that a server gives it.
func contextError(ctx context.Context) error {
	err := ctx.Err()
	return &faultError{code: status.FromContextError(err).Code(), text: err.Error(), cause: err}
}

// wait lets d pass, or the rest of the context.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}
