package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"
)

// measureArg is the first argument that makes the testbed run a test program and append the
// program's time to a file.
const measureArg = "measure"

// measurement is the time of one execution of a package's test program.
type measurement struct {
	Dir       string // the package's folder
	Wall, CPU time.Duration
}

// runMeasured runs a program and returns its exit code. It ignores SIGINT, which the
// program gets as a member of the same process group.
func runMeasured(file string, argv []string) int {
	signal.Ignore(os.Interrupt)
	begin := time.Now()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	code, err := exitCode(cmd.Run())
	if err == nil && cmd.ProcessState != nil {
		err = appendMeasurement(file, time.Since(begin), cmd.ProcessState)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

func appendMeasurement(file string, wall time.Duration, state *os.ProcessState) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	text, err := json.Marshal(measurement{Dir: dir, Wall: wall, CPU: state.UserTime() + state.SystemTime()})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n')) // a single write, because several programs append
	return errors.Join(err, f.Close())
}

// readMeasurements adds the measurements of the unit tests to the log.
func (s *suite) readMeasurements() error {
	f, err := os.Open(s.measurements())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for decoder := json.NewDecoder(f); ; {
		var m measurement
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		s.log.Ran(modulePath+strings.TrimPrefix(m.Dir, s.root()), m.Wall, m.CPU)
	}
}
