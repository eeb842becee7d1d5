package nodelogs

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podwright/podwright/internal/run"
)

// Journal writes the lines that journalctl prints with these arguments to w. It is also called with
// --field=_SYSTEMD_UNIT, which lists the units of the journal.
type Journal func(ctx context.Context, arguments []string, w io.Writer) error

func journalctl(ctx context.Context, arguments []string, w io.Writer) error {
	cmd := run.Command(ctx, "journalctl", arguments...)
	cmd.Stdout, cmd.Stderr = w, w // errors are lines of the response, as in upstream kubelets
	return cmd.Run()
}

const (
	maxServices  = 4
	maxName      = 256
	maxTailLines = 100_000
	maxPattern   = 1024
	queryTimeout = 30 * time.Second
	// maxQueries bounds the queries of services in progress, because each runs a program.
	maxQueries = 16
	maxUnits   = 4 << 20 // bytes of the journal's units
)

// query is a node log query. The result of parse is well-formed, and valid after check.
type query struct {
	services     []string
	files        []string
	boot         *int
	pattern      string
	since, until time.Time
	tailLines    *int
}

// The names of units, and of files below the root.
var (
	service = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.\-_@:]*$`)
	file    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.\-_@:]*(/[A-Za-z0-9][A-Za-z0-9.\-_@:]*)*$`)
)

// parse parses a query. Its error lists all malformed fields. It returns nil without any field of a
// query.
func parse(values url.Values) (*query, error) {
	var q query
	var wrong field.ErrorList
	for _, name := range values["query"] {
		switch {
		case strings.ContainsAny(name, `/\`):
			q.files = append(q.files, name)
		case strings.TrimSpace(name) != "":
			q.services = append(q.services, name)
		}
	}
	if values.Has("query") && len(q.files)+len(q.services) == 0 {
		wrong = append(wrong, field.Invalid(field.NewPath("query"), values["query"], "may not be empty"))
	}
	for name, t := range map[string]*time.Time{"sinceTime": &q.since, "untilTime": &q.until} {
		text := values.Get(name)
		if text == "" {
			continue
		}
		var err error
		if *t, err = time.Parse(time.RFC3339, text); err != nil || t.Year() < 1970 || t.Year() > 9999 {
			wrong = append(wrong, field.Invalid(field.NewPath(name), text, "invalid time format"))
		}
	}
	for name, n := range map[string]**int{"boot": &q.boot, "tailLines": &q.tailLines} {
		text := values.Get(name)
		if text == "" {
			continue
		}
		i, err := strconv.Atoi(text)
		if err != nil {
			wrong = append(wrong, field.Invalid(field.NewPath(name), text, err.Error()))
		}
		*n = &i
	}
	q.pattern = values.Get("pattern")
	if len(q.files)+len(q.services) == 0 && !q.restricted() && len(wrong) == 0 {
		return nil, nil
	}
	return &q, wrong.ToAggregate()
}

// restricted reports whether the query has an option that selects lines.
func (q *query) restricted() bool {
	return q.boot != nil || q.pattern != "" || !q.since.IsZero() || !q.until.IsZero() || q.tailLines != nil
}

// check returns an error with all fields that have invalid values or must not be combined. The
// texts equal the upstream kubelet's.
func (q *query) check() error {
	var wrong field.ErrorList
	at := field.NewPath("query")
	invalid := func(at *field.Path, value any, text string) { wrong = append(wrong, field.Invalid(at, value, text)) }
	for _, name := range q.services {
		switch {
		case len(name) > maxName:
			invalid(at, name[:60], fmt.Sprintf("length must be less than %d", maxName))
		case !service.MatchString(name):
			invalid(at, name, "input contains unsupported characters")
		}
	}
	if len(q.services) > maxServices {
		wrong = append(wrong, field.TooMany(at, len(q.services), maxServices))
	}
	switch {
	case len(q.files)+len(q.services) == 0:
		wrong = append(wrong, field.Required(at, "cannot be empty with options"))
	case len(q.files) > 0 && len(q.services) > 0:
		invalid(at, fmt.Sprintf("%v, %v", q.files, q.services), "cannot specify a file and service")
	case len(q.files) > 1:
		invalid(at, q.files, "cannot specify more than one file")
	case len(q.files) == 1 && q.restricted():
		invalid(at, q.files, "cannot specify file with options")
	case len(q.files) == 1 && (len(q.files[0]) > maxName || !file.MatchString(q.files[0])):
		invalid(at, q.files, "is not the path of a file below /var/log")
	}
	if !q.since.IsZero() && !q.until.IsZero() && q.since.After(q.until) {
		invalid(field.NewPath("untilTime"), q.until, "must be after `sinceTime`")
	}
	if q.boot != nil && *q.boot > 0 {
		invalid(field.NewPath("boot"), *q.boot, "must be less than 1")
	}
	if q.tailLines != nil {
		for _, text := range validation.IsInRange(*q.tailLines, 0, maxTailLines) {
			invalid(field.NewPath("tailLines"), *q.tailLines, text)
		}
	}
	if len(q.pattern) > maxPattern {
		invalid(field.NewPath("pattern"), q.pattern[:60], fmt.Sprintf("length must be less than %d", maxPattern))
	} else if _, err := syntax.Parse(q.pattern, syntax.Perl); err != nil {
		invalid(field.NewPath("pattern"), q.pattern, err.Error())
	}
	return wrong.ToAggregate()
}

// arguments returns the arguments of journalctl. Each value is in one argument with its option, so
// that a value cannot become an option.
func (q *query) arguments(services []string) []string {
	args := []string{"--utc", "--no-pager", "--output=short-precise"}
	if !q.since.IsZero() {
		args = append(args, "--since="+q.since.UTC().Format(time.DateTime))
	}
	if !q.until.IsZero() {
		args = append(args, "--until="+q.until.UTC().Format(time.DateTime))
	}
	if q.tailLines != nil {
		args = append(args, "--lines="+strconv.Itoa(*q.tailLines))
	}
	for _, s := range services {
		args = append(args, "--unit="+s)
	}
	if q.pattern != "" {
		args = append(args, "--grep="+q.pattern)
	}
	if q.boot != nil {
		args = append(args, "--boot="+strconv.Itoa(*q.boot))
	}
	return args
}

// query serves a query. It returns false for a request without one.
func (h *Handler) query(w http.ResponseWriter, r *http.Request, path string) bool {
	q, err := parse(r.URL.Query())
	switch {
	case q == nil && err == nil:
		return false
	case !h.cfg.Query:
		http.Error(w, "log queries are disabled (enableSystemLogQuery)", http.StatusForbidden)
		return true
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return true
	case path != "":
		http.Error(w, "path not allowed in query mode", http.StatusNotAcceptable)
		return true
	}
	if err := q.check(); err != nil {
		http.Error(w, err.Error(), http.StatusNotAcceptable)
		return true
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if len(q.files) == 1 {
		if !h.serveFirst(w, r, q.files[0]) {
			http.Error(w, "log not found", http.StatusNotFound)
		}
		return true
	}
	h.services(w, r, q)
	return true
}

// services writes the logs of services: from the journal, or from files if the journal has no such
// unit. Errors after the first byte are lines of the response, as in upstream kubelets.
func (h *Handler) services(w http.ResponseWriter, r *http.Request, q *query) {
	defer h.running.Add(-1)
	if h.running.Add(1) > maxQueries {
		http.Error(w, fmt.Sprintf("too many log queries in progress (limit %d), try again later", maxQueries), http.StatusTooManyRequests)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.timeout)
	defer cancel()
	// It ends a write to a client that does not read. It fails only without a connection.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(h.timeout))
	var units units
	noJournal := h.cfg.Journal(ctx, []string{"--field=_SYSTEMD_UNIT"}, &units)
	known := strings.Fields(string(units.text))
	var native, files []string
	for _, name := range q.services {
		if slices.Contains(known, name) || slices.Contains(known, name+".service") {
			native = append(native, name)
		} else {
			files = append(files, name)
		}
	}
	out := &counted{w: w}
	if len(native) > 0 {
		if err := h.cfg.Journal(ctx, q.arguments(native), out); err != nil && out.n == 0 {
			fmt.Fprint(out, "\nerror: journal output not available\n")
		}
	}
	if len(files) > 0 && q.restricted() {
		fmt.Fprintf(out, "\noptions present and query resolved to log files for %v\ntry without specifying options\n", files)
		return
	}
	for _, name := range files {
		names := []string{name, name + ".log", name + "/" + name + ".log"}
		switch {
		case len(q.services) == 1 && h.serveFirst(w, r, names...):
		case len(q.services) > 1 && h.copyFirst(ctx, out, names...):
		case out.n == 0 && noJournal != nil:
			http.Error(w, "the journal: "+noJournal.Error(), http.StatusInternalServerError)
			return
		case len(q.services) == 1:
			http.Error(w, "log not found for "+name, http.StatusNotFound)
		default:
			fmt.Fprintf(out, "\nlog not found for %s\n", name)
		}
	}
}

// serveFirst serves the first existing file, or returns false.
func (h *Handler) serveFirst(w http.ResponseWriter, r *http.Request, names ...string) bool {
	log, info := h.first(names)
	if log == nil {
		return false
	}
	defer log.Close()
	serve(w, r, log, info)
	return true
}

// copyFirst copies the first existing file to w until ctx is done, or returns false.
func (h *Handler) copyFirst(ctx context.Context, w io.Writer, names ...string) bool {
	log, _ := h.first(names)
	if log == nil {
		return false
	}
	defer log.Close()
	if _, err := io.Copy(w, reader{ctx, log}); err != nil {
		fmt.Fprintf(w, "\nerror getting log for %s: %v\n", names[0], err)
	}
	return true
}

// first opens the first regular file. It returns nil without one.
func (h *Handler) first(names []string) (*os.File, os.FileInfo) {
	for _, name := range names {
		log, info, err := h.open(name)
		if err != nil {
			continue
		}
		if info.Mode().IsRegular() {
			return log, info
		}
		_ = log.Close()
	}
	return nil, nil
}

// reader is a file that fails with the error of its context once that is done.
type reader struct {
	ctx context.Context
	*os.File
}

// Read implements io.Reader.
func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.File.Read(p)
}

// WriteTo hides the method of the file, which does not check the context.
func (r reader) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{r})
}

// Seek checks the context, too: http.ServeContent reads and seeks.
func (r reader) Seek(offset int64, whence int) (int64, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.File.Seek(offset, whence)
}

// units fails when it has more than maxUnits bytes, so that it does not fill the memory.
type units struct{ text []byte }

// Write implements io.Writer.
func (u *units) Write(b []byte) (int, error) {
	if len(u.text)+len(b) > maxUnits {
		return 0, fmt.Errorf("the list of units exceeds %d bytes", maxUnits)
	}
	u.text = append(u.text, b...)
	return len(b), nil
}

type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil // an empty write would start the response
	}
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
