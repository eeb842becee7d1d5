package main

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// digest passes on what go test prints, and keeps what says which tests failed and why, to
// say it again at the end of a long run: without what programs have logged meanwhile.
type digest struct {
	out  io.Writer
	part []byte // of a line that is not over
	left int    // how many lines of a failed test are kept yet
	kept []string
	again
}

const (
	// digestLines is how many lines are kept of a failed test.
	digestLines  = 40
	digestLength = 400
)

var (
	fails = regexp.MustCompile(`^\s*--- FAIL: |^FAIL\s+\S+/|^panic: |^\s*testing.go:\d+: race|^WARNING: DATA RACE`)
	// passes begins what is not of a failed test any more.
	passes = regexp.MustCompile(`^ok\s|^\?\s|^\s*--- (PASS|SKIP): |^FAIL$`)
	logged = regexp.MustCompile(`\blevel=(DEBUG|INFO|WARN)\b|^\s*(\d{4}/\d\d/\d\d \d\d:\d\d:\d\d )?(DEBUG|INFO|WARN) |^\s*[IW]\d{4} \d\d:`)
)

// Write implements io.Writer.
func (d *digest) Write(b []byte) (int, error) {
	d.part = append(d.part, b...)
	for {
		line, rest, ok := bytes.Cut(d.part, []byte("\n"))
		if !ok {
			break
		}
		d.line(string(line))
		d.part = rest
	}
	return d.out.Write(b)
}

func (d *digest) line(line string) {
	d.again.line(line)
	switch {
	case fails.MatchString(line):
		d.left = digestLines
	case passes.MatchString(line):
		d.left = 0
	}
	if d.left == 0 || logged.MatchString(line) || strings.TrimSpace(line) == "" {
		return
	}
	d.left--
	d.kept = append(d.kept, line[:min(len(line), digestLength)])
}

// print says again what failed, if anything did.
func (d *digest) print() {
	if len(d.kept) > 0 {
		fmt.Fprintf(d.out, "\nWhat failed:\n%s\n", strings.Join(d.kept, "\n"))
	}
}
