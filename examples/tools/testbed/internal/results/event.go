package results

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// event is one line of go test -json; see go doc test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build-output
	Test       string
	Elapsed    float64 // seconds
	Output     string
}

// Reader decodes the events of one command. Close ends it.
type Reader struct {
	log  *Log
	part []byte // of an incomplete line
	runs map[string]*run
	test string // the label of its packages
}

// Reader returns a reader for the events of one command. The label is printed beside the name
// of each of its packages: the test, if the command runs only one.
func (l *Log) Reader(label string) *Reader {
	return &Reader{log: l, runs: map[string]*run{}, test: label}
}

// Write implements io.Writer. It prints a line that is not an event unchanged.
func (r *Reader) Write(b []byte) (int, error) {
	r.part = append(r.part, b...)
	for {
		line, rest, ok := bytes.Cut(r.part, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		r.line(line)
		r.part = rest
	}
}

func (r *Reader) line(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil || e.Action == "" {
		r.log.print(fmt.Sprintf("%s\n", line))
		return
	}
	if e.Action == "build-output" {
		r.log.print(e.Output)
		return
	}
	pkg := r.runs[e.Package]
	if pkg == nil {
		pkg = &run{log: r.log, name: e.Package, label: r.test, tests: map[string]*test{}}
		r.runs[e.Package] = pkg
	}
	pkg.add(e)
}

// Close reports packages without an end event as failed.
func (r *Reader) Close() {
	for _, run := range r.runs {
		if !run.ended {
			run.add(event{Action: "fail"})
		}
	}
}
