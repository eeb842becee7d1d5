package critest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/podwright/podwright/cri/fake"
)

// beatsFolder is the mount point that beats needs.
const beatsFolder = "/critest"

// Programs for cases about signals and output. Programs that handle signals print "ready" first.
var (
	// quits ends with code 7 on SIGTERM.
	quits = program{`trap "exit 7" TERM; echo ready; while true; do sleep 0.1; done`, onSignals(map[syscall.Signal]reaction{syscall.SIGTERM: {exits: true, code: 7}})}
	// unprepared handles no signals.
	unprepared = program{`echo ready; exec sleep 3600`, func(ctx context.Context, p *fake.Process) int {
		print(p.Stdout, "ready\n")
		<-ctx.Done()
		return 0
	}}
	// counts prints "got" for each SIGTERM and continues.
	counts = program{`trap "echo got" TERM; echo ready; while true; do sleep 0.1; done`, onSignals(map[syscall.Signal]reaction{syscall.SIGTERM: {text: "got\n"}})}
	// picky ends with code 3 on SIGUSR1 and with 4 on SIGTERM.
	picky = program{`trap "exit 3" USR1; trap "exit 4" TERM; echo ready; while true; do sleep 0.1; done`, onSignals(map[syscall.Signal]reaction{
		syscall.Signal(10): {exits: true, code: 3}, syscall.SIGTERM: {exits: true, code: 4},
	})}

	// writesBoth prints a line to each of its streams and ends with code 3.
	writesBoth = program{`echo out; echo err >&2; exit 3`, func(_ context.Context, p *fake.Process) int {
		print(p.Stdout, "out\n")
		print(p.Stderr, "err\n")
		return 3
	}}
	// blanks prints empty and other lines.
	blanks = program{`echo; echo; echo x; echo`, prints("\n\nx\n\n")}
	// unended ends in the middle of a line.
	unended = program{`printf 'a\nbc'`, prints("a\nbc")}
	// long prints a line that every runtime splits.
	long = program{`head -c 40000 /dev/zero | tr '\0' x; echo end`, prints(strings.Repeat("x", 40000) + "end\n")}
	// binary prints bytes that are not text.
	binary = program{`printf '\377\000\001\r.\n\t \200\n'`, prints("\xff\x00\x01\r.\n\t \x80\n")}
	// slow prints one line in two parts.
	slow = program{`printf ab; sleep 0.3; echo cd`, func(ctx context.Context, p *fake.Process) int {
		print(p.Stdout, "ab")
		pause(ctx, 300*time.Millisecond)
		print(p.Stdout, "cd\n")
		return 0
	}}
	// dying prints two thousand numbered lines and ends with code 1.
	dying = program{`i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; exit 1`, func(_ context.Context, p *fake.Process) int {
		for i := range 2000 {
			fmt.Fprintf(p.Stdout, "line %d\n", i)
		}
		return 1
	}}
	// steady prints numbered lines without end.
	steady = program{`i=0; while true; do echo line $i; i=$((i+1)); [ $((i % 20)) = 0 ] && sleep 0.05; done`, func(ctx context.Context, p *fake.Process) int {
		for i := 0; ctx.Err() == nil; i++ {
			fmt.Fprintf(p.Stdout, "line %d\n", i)
			if (i+1)%20 == 0 {
				pause(ctx, 50*time.Millisecond)
			}
		}
		return 0
	}}

	// big prints one mebibyte.
	big = program{`head -c 1048576 /dev/zero | tr '\0' x`, prints(strings.Repeat("x", 1<<20))}
	// execReporter prints its environment and folder, and the size of its standard input.
	execReporter = program{`echo $COLOR; pwd; cat | wc -c`, func(_ context.Context, p *fake.Process) int {
		n, _ := io.Copy(io.Discard, p.Stdin)
		fmt.Fprintf(p.Stdout, "%s\n%s\n%d\n", p.Getenv("COLOR"), p.Dir, n)
		return 0
	}}
	// beats appends to a file in beatsFolder while it runs.
	beats = program{`while true; do echo beat >> ` + beatsFolder + `/beats; sleep 0.05; done`, beat}
)

func outputPrograms() []program {
	return []program{
		quits, unprepared, counts, picky,
		writesBoth, blanks, unended, long, binary, slow, dying, steady,
		big, execReporter, beats, echoes, measures, lineEcho, echoServer,
	}
}

type reaction struct {
	text  string
	exits bool
	code  int
}

// onSignals prints "ready" and then reacts to signals.
func onSignals(reactions map[syscall.Signal]reaction) fake.Program {
	return func(ctx context.Context, p *fake.Process) int {
		signals := p.Signals()
		print(p.Stdout, "ready\n")
		for {
			select {
			case <-ctx.Done():
				return 0
			case signal := <-signals:
				r := reactions[signal]
				print(p.Stdout, r.text)
				if r.exits {
					return r.code
				}
			}
		}
	}
}

func prints(text string) fake.Program {
	return func(_ context.Context, p *fake.Process) int {
		print(p.Stdout, text)
		return 0
	}
}

// print writes text and ignores errors.
func print(to io.Writer, text string) { _, _ = io.Copy(to, bytes.NewReader([]byte(text))) }

// pause sleeps for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func beat(ctx context.Context, p *fake.Process) int {
	folder, ok := p.HostPath(beatsFolder)
	if !ok {
		return 1
	}
	for ctx.Err() == nil {
		file, err := os.OpenFile(filepath.Join(folder, "beats"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return 1
		}
		print(file, "beat\n")
		if err := file.Close(); err != nil {
			return 1
		}
		pause(ctx, 50*time.Millisecond)
	}
	return 0
}
