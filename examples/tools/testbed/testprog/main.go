// Testprog is the main process of containers in lifecycle tests. Its arguments and requests
// control how it ends.
//
//	testprog exit CODE [AFTER]        end with CODE after a duration
//	testprog run [CODE]               run until SIGTERM, then end at once with CODE (0)
//	testprog ignore                   ignore SIGTERM and SIGINT
//	testprog delay DURATION [CODE]    end with CODE, DURATION after SIGTERM
//	testprog lines N [EVERY]          print N numbered lines, alternating stdout and stderr, and end
//	testprog crash [SIGNAL] [AFTER]   end by a signal (default 6, SIGABRT)
//	testprog http [ADDR]              serve /healthz, /fail, /ok, /exit?code=N, /version and
//	                                  unusual responses (see addTolerated) until SIGTERM, and gRPC
//	                                  health checks on the same port
//	testprog https [ADDR]             the same with TLS and a self-signed certificate, without gRPC
//	testprog silent [ADDR]            accept connections without a response until SIGTERM
//	testprog file PATH [AFTER]        create PATH after a duration, then run until SIGTERM
//	testprog note PATH                create PATH, run until SIGTERM, then write its time there (Unix ns)
//	testprog exists PATH              end with 0 if PATH exists, 1 if not
//	testprog version                  print $TESTPROG_VERSION
//
// It uses only the standard library, so that it builds outside of any module.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

func main() {
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"run"}
	}
	code, err := run(args[0], args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testprog:", err)
		os.Exit(2)
	}
	os.Exit(code)
}

func run(verb string, args []string) (int, error) {
	switch verb {
	case "exit":
		return exit(args)
	case "run":
		return untilTerm(args, 0)
	case "ignore":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		fmt.Println("ready")
		for {
			time.Sleep(time.Hour)
		}
	case "delay":
		return delay(args)
	case "lines":
		return 0, lines(args)
	case "crash":
		return crash(args)
	case "http":
		return serve(args, false)
	case "https":
		return serve(args, true)
	case "silent":
		return silent(args)
	case "file":
		return file(args)
	case "note":
		return 0, note(args)
	case "exists":
		return exists(args)
	case "version":
		fmt.Println(os.Getenv("TESTPROG_VERSION"))
		return 0, nil
	}
	return 0, fmt.Errorf("unknown subcommand %q", verb)
}

func exit(args []string) (int, error) {
	code, err := intArg(args, 0, 0)
	if err != nil {
		return 0, err
	}
	after, err := durationArg(args, 1, 0)
	if err != nil {
		return 0, err
	}
	time.Sleep(after)
	return code, nil
}

func untilTerm(args []string, codeAt int) (int, error) {
	code, err := intArg(args, codeAt, 0)
	if err != nil {
		return 0, err
	}
	<-terms()
	fmt.Println("terminated")
	return code, nil
}

// terms prints "ready" once the process handles SIGTERM.
func terms() <-chan os.Signal {
	sigs := make(chan os.Signal, 1)
	signal.Notify(sigs, syscall.SIGTERM)
	fmt.Println("ready")
	return sigs
}

func delay(args []string) (int, error) {
	after, err := durationArg(args, 0, 0)
	if err != nil {
		return 0, err
	}
	code, err := untilTerm(args, 1)
	if err != nil {
		return 0, err
	}
	time.Sleep(after)
	fmt.Println("done")
	return code, nil
}

func lines(args []string) error {
	n, err := intArg(args, 0, 1)
	if err != nil {
		return err
	}
	every, err := durationArg(args, 1, 0)
	if err != nil {
		return err
	}
	for i := 1; i <= n; i++ {
		out := os.Stdout
		if i%2 == 0 {
			out = os.Stderr
		}
		if _, err := fmt.Fprintf(out, "line %d\n", i); err != nil {
			return err
		}
		time.Sleep(every)
	}
	return nil
}

// crash ends by a signal with its default action (a zeroed sigaction), instead of the Go
// runtime's. The kernel does not deliver signals that process 1 of a PID namespace sends to
// itself. There crash ends with the exit code that a runtime would report.
func crash(args []string) (int, error) {
	sig, err := intArg(args, 0, int(syscall.SIGABRT))
	if err != nil {
		return 0, err
	}
	after, err := durationArg(args, 1, 0)
	if err != nil {
		return 0, err
	}
	time.Sleep(after)
	var deflt [64]byte
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&deflt)), 0, 8, 0, 0)
	if err := syscall.Kill(os.Getpid(), syscall.Signal(sig)); err != nil {
		return 0, fmt.Errorf("signal %d: %w", sig, err)
	}
	time.Sleep(100 * time.Millisecond)
	return 128 + sig, nil
}

func file(args []string) (int, error) {
	if len(args) == 0 {
		return 0, fmt.Errorf("file: no path")
	}
	after, err := durationArg(args, 1, 0)
	if err != nil {
		return 0, err
	}
	done := terms()
	select {
	case <-done:
		return 0, nil
	case <-time.After(after):
	}
	if err := os.WriteFile(args[0], []byte("here\n"), 0o644); err != nil {
		return 0, err
	}
	<-done
	return 0, nil
}

// note writes the time to another file and renames it, so that readers of PATH see either no time
// or all of it.
func note(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("note: no path")
	}
	done := terms()
	if err := os.WriteFile(args[0], nil, 0o644); err != nil {
		return err
	}
	<-done
	at := time.Now()
	whole := args[0] + ".whole"
	if err := os.WriteFile(whole, fmt.Append(nil, at.UnixNano()), 0o644); err != nil {
		return err
	}
	return os.Rename(whole, args[0])
}

func exists(args []string) (int, error) {
	if len(args) == 0 {
		return 0, fmt.Errorf("exists: no path")
	}
	if _, err := os.Stat(args[0]); err != nil {
		return 1, nil
	}
	return 0, nil
}

func intArg(args []string, at, otherwise int) (int, error) {
	if len(args) <= at {
		return otherwise, nil
	}
	n, err := strconv.Atoi(args[at])
	if err != nil {
		return 0, fmt.Errorf("argument %d: %w", at+1, err)
	}
	return n, nil
}

func durationArg(args []string, at int, otherwise time.Duration) (time.Duration, error) {
	if len(args) <= at {
		return otherwise, nil
	}
	d, err := time.ParseDuration(args[at])
	if err != nil {
		return 0, fmt.Errorf("argument %d: %w", at+1, err)
	}
	return d, nil
}
