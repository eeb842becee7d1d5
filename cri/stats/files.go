package stats

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// unlimitedV1 is the smallest value that cgroup v1 shows for an unlimited memory limit: it rounds
// down to the page size.
const unlimitedV1 = math.MaxInt64 &^ (1<<20 - 1)

// files reads small kernel files and collects errors.
type files struct {
	fs     fs.FS
	found  bool // at least one file existed
	unread []error
	open   []openFolder
}

type openFolder struct {
	prefix string
	folder folder
}

// folders is the optional interface of a file system that reads files of one folder faster.
type folders interface {
	// openFolder returns nil if it has no advantage for the folder.
	openFolder(name string) folder
}

// folder reads files of one folder. close reports whether no file existed, so that the folder may
// have been removed.
type folder interface {
	read(name string) ([]byte, error)
	close() (stale bool)
}

// enter opens a folder, given with a trailing slash, if the file system supports it. leave closes
// all of them, and reports whether one may have been removed.
func (f *files) enter(prefix string) {
	if in, ok := f.fs.(folders); ok {
		if opened := in.openFolder(strings.TrimSuffix(prefix, "/")); opened != nil {
			f.open = append(f.open, openFolder{prefix, opened})
		}
	}
}

func (f *files) leave() (stale bool) {
	for _, o := range f.open {
		stale = o.folder.close() || stale
	}
	return stale
}

func (f *files) read(name string) ([]byte, error) {
	for _, o := range f.open {
		if base, ok := strings.CutPrefix(name, o.prefix); ok {
			content, err := o.folder.read(base)
			if err != nil {
				err = &fs.PathError{Op: "readfile", Path: name, Err: err}
			}
			return content, err
		}
	}
	return fs.ReadFile(f.fs, name)
}

// text returns a file's content, and false if it is missing or unreadable.
func (f *files) text(name string) (string, bool) {
	content, err := f.read(name)
	switch {
	case err == nil:
		f.found = true
		return strings.TrimSpace(string(content)), true
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENODEV): // ENODEV: the cgroup was removed meanwhile
		f.note(err)
	}
	return "", false
}

func (f *files) note(err error) { f.unread = append(f.unread, fmt.Errorf("stats: %w", err)) }

func (f *files) number(name string) *uint64 {
	text, ok := f.text(name)
	if !ok {
		return nil
	}
	return f.parse(name, text)
}

func (f *files) parse(name, text string) *uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		f.note(fmt.Errorf("%s: %q is not a number", name, text))
		return nil
	}
	return &n
}

// limit returns the number in a file, or nil for "max" and the unlimited value of cgroup v1.
func (f *files) limit(name string) *uint64 {
	text, ok := f.text(name)
	if !ok || text == "max" {
		return nil
	}
	n := f.parse(name, text)
	if n != nil && *n >= unlimitedV1 {
		return nil
	}
	return n
}

// table has the lines of a file that are a word and a number. It is a slice, because only a few of
// up to fifty lines are needed.
type table []tableLine

type tableLine struct {
	name  string
	value uint64
}

// table reads a file and records malformed lines as errors.
func (f *files) table(name string) table {
	text, ok := f.text(name)
	if !ok {
		return nil
	}
	out := make(table, 0, strings.Count(text, "\n")+1)
	for line := range strings.Lines(text) {
		word, number, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			f.note(fmt.Errorf("%s: %q does not consist of a name and a number", name, strings.TrimSpace(line)))
			continue
		}
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			f.note(fmt.Errorf("%s: %s: %q is not a number", name, word, number))
			continue
		}
		out = append(out, tableLine{word, n})
	}
	return out
}

// pressure reads a pressure file. It returns nil if the kernel lacks it or has disabled it (reading
// fails with EOPNOTSUPP). Older kernels omit the second line for CPUs.
func (f *files) pressure(name string) *Pressure {
	content, err := f.read(name)
	if err != nil {
		return nil
	}
	var out Pressure
	some := false
	for line := range strings.Lines(string(content)) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		stall, ok := parseStall(rest)
		switch {
		case ok && kind == "some":
			out.Some, some = stall, true
		case ok && kind == "full":
			out.Full = stall
		default:
			f.note(fmt.Errorf("%s: %q is not a pressure line", name, strings.TrimSpace(line)))
			return nil
		}
	}
	if !some {
		f.note(fmt.Errorf("%s: no line starts with some", name))
		return nil
	}
	return &out
}

// parseStall parses "avg10=0.00 avg60=0.00 avg300=0.00 total=9589". The total is in microseconds.
func parseStall(text string) (Stall, bool) {
	var s Stall
	fields := strings.Fields(text)
	averages := []*float64{&s.Avg10, &s.Avg60, &s.Avg300}
	names := []string{"avg10", "avg60", "avg300"}
	if len(fields) != len(names)+1 {
		return s, false
	}
	for i, name := range names {
		value, ok := strings.CutPrefix(fields[i], name+"=")
		n, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil || n < 0 || n > 100 {
			return Stall{}, false
		}
		*averages[i] = n
	}
	value, ok := strings.CutPrefix(fields[len(names)], "total=")
	n, err := strconv.ParseInt(value, 10, 64)
	if !ok || err != nil || n < 0 || n > math.MaxInt64/int64(time.Microsecond) {
		return Stall{}, false
	}
	s.Total = time.Duration(n) * time.Microsecond
	return s, true
}

func entry(t table, name string) *uint64 {
	for i := range t {
		if t[i].name == name {
			return new(t[i].value)
		}
	}
	return nil
}

// duration converts a counter of units; it returns nil for nil and on overflow.
func duration(n *uint64, unit time.Duration) *time.Duration {
	if n == nil || *n > uint64(math.MaxInt64/unit) {
		return nil
	}
	return new(time.Duration(*n) * unit)
}

// workingSet returns the usage without inactive file pages, or nil if either is unavailable.
func workingSet(usage, inactiveFile *uint64) *uint64 {
	if usage == nil || inactiveFile == nil {
		return nil
	}
	return new(less(*usage, *inactiveFile))
}
