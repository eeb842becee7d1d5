package iptables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
)

// Config configures a Keeper. The zero value is usable.
type Config struct {
	// Period is the period of checks for the chains. Default: 1 min.
	Period time.Duration
	// Command runs a program and returns its exit code and output. It returns an error if the
	// program could not run. Default: Exec.
	Command func(ctx context.Context, program string, args ...string) (code int, output string, err error)
	// Logger receives created chains and failures; repeated failures are logged once. Default:
	// discard.
	Logger *slog.Logger
}

// ErrAlreadyRun is returned by a second Run.
var ErrAlreadyRun = errors.New("iptables: Run was called before")

// Keeper maintains the chains. Use New.
type Keeper struct {
	cfg    Config
	ran    atomic.Bool
	failed map[string]string
}

// New returns a Keeper that does nothing until Run.
func New(cfg Config) (*Keeper, error) {
	f := fields.Of("iptables: Config")
	fields.Number(f, "Period", &cfg.Period, time.Minute)
	fields.Default(&cfg.Command, Exec)
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Keeper{cfg: cfg, failed: map[string]string{}}, nil
}

// Exec runs a program of this machine. It is killed with its children when ctx is done.
func Exec(ctx context.Context, program string, args ...string) (code int, output string, err error) {
	out, err := run.Command(ctx, program, args...).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return exit.ExitCode(), string(out), nil
	}
	return 0, string(out), err
}

// Run creates the chains and maintains them until ctx is done, then returns nil and leaves them.
// Failures are logged and retried after a period.
func (k *Keeper) Run(ctx context.Context) error {
	if k.ran.Swap(true) {
		return ErrAlreadyRun
	}
	present := k.present(ctx)
	tick := time.NewTicker(k.cfg.Period)
	defer tick.Stop()
	for len(present) > 0 && ctx.Err() == nil {
		for _, f := range present {
			k.keep(ctx, f)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	<-ctx.Done()
	return nil
}

// present returns the families that this node has iptables for.
func (k *Keeper) present(ctx context.Context) (out []family) {
	var why []error
	for _, f := range families() {
		if err := k.do(ctx, f, nat, "-S", "POSTROUTING"); err != nil {
			why = append(why, err)
			continue
		}
		out = append(out, f)
	}
	if len(out) == 0 && ctx.Err() == nil {
		k.cfg.Logger.Info("iptables not available; chains for other programs not created", "why", errors.Join(why...))
	}
	return out
}

// keep creates the missing chains and rules of a family if a canary is missing.
func (k *Keeper) keep(ctx context.Context, f family) {
	if k.complete(ctx, f) {
		return
	}
	err := k.make(ctx, f)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		delete(k.failed, f.program)
		k.cfg.Logger.Info("iptables chains for other programs created", "program", f.program)
		return
	}
	if text := err.Error(); text != k.failed[f.program] {
		k.failed[f.program] = text
		k.cfg.Logger.Warn("iptables chains for other programs not created; trying again", "program", f.program, "err", err)
	}
}

func (k *Keeper) complete(ctx context.Context, f family) bool {
	for _, table := range tables() {
		if k.do(ctx, f, table, "-S", canary) != nil {
			return false
		}
	}
	return true
}

// make creates the missing chains and rules of a family, the canaries last.
func (k *Keeper) make(ctx context.Context, f family) error {
	for _, c := range f.chains {
		if err := k.ensureChain(ctx, f, c[0], c[1]); err != nil {
			return err
		}
	}
	for _, r := range f.rules {
		if err := k.ensureRule(ctx, f, r); err != nil {
			return err
		}
	}
	for _, table := range tables() {
		if err := k.ensureChain(ctx, f, table, canary); err != nil {
			return err
		}
	}
	return nil
}

// ensureChain creates a missing chain. Creating an existing chain fails, so after a failure it
// checks whether the chain exists.
func (k *Keeper) ensureChain(ctx context.Context, f family, table, chain string) error {
	err := k.do(ctx, f, table, "-N", chain)
	if err == nil || k.do(ctx, f, table, "-S", chain) == nil {
		return nil
	}
	return err
}

func (k *Keeper) ensureRule(ctx context.Context, f family, r rule) error {
	args := append([]string{r.chain}, r.spec...)
	err := k.do(ctx, f, r.table, "-C", args...)
	if failure, ok := errors.AsType[*failure](err); !ok || failure.code != exitNotFound {
		return err
	}
	if r.first {
		return k.do(ctx, f, r.table, "-I", args...)
	}
	return k.do(ctx, f, r.table, "-A", args...)
}

const exitNotFound = 1

type failure struct {
	command, output string
	code            int
}

func (f *failure) Error() string {
	return fmt.Sprintf("%s: exit code %d: %s", f.command, f.code, strings.TrimSpace(f.output))
}

// do runs one command. Like the reference it waits up to 5 s for the lock of the tables.
func (k *Keeper) do(ctx context.Context, f family, table, operation string, args ...string) error {
	args = append([]string{"-w", "5", "-t", table, operation}, args...)
	code, output, err := k.cfg.Command(ctx, f.program, args...)
	command := f.program + " " + strings.Join(args, " ")
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", command, err)
	case code != 0:
		return &failure{command: command, output: output, code: code}
	}
	return nil
}
