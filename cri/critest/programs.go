package critest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/podwright/podwright/cri/fake"
)

// A program is a command in the suite's containers: a shell script for real runtimes, and the
// equivalent function for the fake.
type program struct {
	script string
	run    fake.Program
}

var (
	// sleeper ends with code 0 soon after SIGTERM. It prints "ready" when it handles the signal;
	// see env.startReady.
	sleeper = program{`trap "exit 0" TERM; echo ready; while true; do sleep 0.1; done`, onSignals(map[syscall.Signal]reaction{syscall.SIGTERM: {exits: true}})}
	// stubborn ignores SIGTERM. It prints "ready" when it does.
	stubborn = program{`trap "" TERM; echo ready; while true; do sleep 0.1; done`, onSignals(nil)}
	// sleepProgram handles no signals.
	sleepProgram = program{`exec sleep 36000`, fake.SleepUntilStopped}
	// These programs end at once.
	exit0   = program{`exit 0`, fake.Exit(0)}
	exit3   = program{`exit 3`, fake.Exit(3)}
	exit255 = program{`exit 255`, fake.Exit(255)}
	// greedy allocates all available memory in a child, and exits with its code. containerd 1.6 looks
	// for kills for memory only after the start, and may report the exit of a container's first process
	// before its kill.
	greedy = program{`sleep 1; tail /dev/zero; code=$?; sleep 4; exit $code`, fake.OutOfMemory}
	// touch writes a line to /data/touched and ends with code 9 if it cannot.
	touch = program{`echo touched > /data/touched || exit 9`, touchData}
	// envPrinter writes its environment to /data/environment; see env.printedEnv.
	envPrinter = program{`{ echo "greeting=$GREETING"; echo "spaced=$SPACED"; echo "empty=${EMPTY+set}"; echo "dir=$PWD"; ` +
		`echo "hostname=$(hostname)"; printf args=; printf "[%s]" "$@"; echo; } > /data/environment`, printEnvData}
)

func programs() []program {
	return append([]program{sleeper, stubborn, sleepProgram, exit0, exit3, exit255, greedy, touch, envPrinter}, outputPrograms()...)
}

func (p program) command() []string { return []string{"sh", "-c", p.script} }

// Programs resolves the commands of the suite, and no others. Use it as Programs and Exec of a
// fake.Config.
func Programs(_ context.Context, p *fake.Process) (fake.Program, error) {
	if len(p.Args) >= 3 && p.Args[0] == "sh" && p.Args[1] == "-c" {
		for _, known := range programs() {
			if known.script == p.Args[2] {
				return known.run, nil
			}
		}
	}
	return nil, fake.ErrNotFound
}

func touchData(_ context.Context, p *fake.Process) int {
	if writeData(p, "touched", "touched\n") != nil {
		return 9
	}
	return 0
}

func printEnvData(_ context.Context, p *fake.Process) int {
	dir, empty, args := p.Dir, "", []string{}
	if dir == "" {
		dir = "/"
	}
	for _, env := range p.Env {
		if strings.HasPrefix(env, "EMPTY=") {
			empty = "set"
		}
	}
	if len(p.Args) > 4 {
		args = p.Args[4:]
	}
	text := fmt.Sprintf("greeting=%s\nspaced=%s\nempty=%s\ndir=%s\nhostname=%s\nargs=[%s]\n",
		p.Getenv("GREETING"), p.Getenv("SPACED"), empty, dir, p.Pod.Hostname, strings.Join(args, "]["))
	if writeData(p, "environment", text) != nil {
		return 1
	}
	return 0
}

func writeData(p *fake.Process, name, text string) error {
	for _, m := range p.Mounts {
		if m.ContainerPath == "/data" && m.Readonly {
			return syscall.EROFS
		}
	}
	at, ok := p.HostPath("/data/" + name)
	if !ok {
		return os.ErrNotExist
	}
	return os.WriteFile(at, []byte(text), 0o644)
}
