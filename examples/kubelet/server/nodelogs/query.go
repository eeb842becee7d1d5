package nodelogs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Journal writes the lines that journalctl prints with these arguments to w.
type Journal func(ctx context.Context, arguments []string, w io.Writer) error

func journalctl(ctx context.Context, arguments []string, w io.Writer) error {
	cmd := exec.CommandContext(ctx, "journalctl", arguments...)
	cmd.Stdout = w
	cmd.WaitDelay = time.Second
	return cmd.Run()
}

const (
	maxServices  = 4
	maxName      = 256
	maxTailLines = 100_000
	maxPattern   = 1024
	maxBoots     = 1000
	queryTimeout = 30 * time.Second
)

// query is a node log query. The result of parse is valid.
type query struct {
	services     []string
	file         string // either file or services
	boot         *int64
	pattern      string
	since, until time.Time
	tailLines    *int64
}

// The names of units, and of files below the root.
var (
	service = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.\-_@:]*$`)
	file    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.\-_@:]*(/[A-Za-z0-9][A-Za-z0-9.\-_@:]*)*$`)
)

// parse parses a query. Its error lists all invalid fields.
func parse(values url.Values) (query, error) {
	var q query
	var wrong []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	for _, name := range values["query"] {
		switch {
		case len(name) > maxName:
			refuse(true, "query: a name is longer than %d bytes", maxName)
		case strings.Contains(name, "/") && file.MatchString(name):
			refuse(q.file != "", "query: more than one file")
			q.file = name
		case service.MatchString(name):
			q.services = append(q.services, name)
		default:
			refuse(true, "query: %.60q is not the name of a service or of a file below /var/log", name)
		}
	}
	refuse(len(q.services) == 0 && q.file == "" && len(wrong) == 0, "query: is empty; name a service or a file")
	refuse(len(q.services) > maxServices, "query: %d services, more than the limit of %d", len(q.services), maxServices)
	refuse(len(q.services) > 0 && q.file != "", "query: names both services and a file")

	var err error
	q.since, err = moment(values, "sinceTime")
	refuse(err != nil, "%w", err)
	q.until, err = moment(values, "untilTime")
	refuse(err != nil, "%w", err)
	refuse(!q.since.IsZero() && !q.until.IsZero() && q.until.Before(q.since), "untilTime: is before sinceTime")
	q.tailLines, err = number(values, "tailLines", 0, maxTailLines)
	refuse(err != nil, "%w", err)
	q.boot, err = number(values, "boot", -maxBoots, 0)
	refuse(err != nil, "%w", err)
	q.pattern = values.Get("pattern")
	refuse(len(q.pattern) > maxPattern, "pattern: is longer than %d bytes", maxPattern)
	if len(q.pattern) <= maxPattern {
		_, err = regexp.Compile(q.pattern)
		refuse(err != nil, "pattern: is not a regular expression")
	}
	narrowed := q.boot != nil || q.pattern != "" || !q.since.IsZero() || !q.until.IsZero() || q.tailLines != nil
	refuse(q.file != "" && narrowed, "query: a file cannot be combined with boot, pattern, sinceTime, untilTime or tailLines")
	return q, errors.Join(wrong...)
}

func moment(values url.Values, name string) (time.Time, error) {
	text := values.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 1970 || t.Year() > 9999 {
		return time.Time{}, fmt.Errorf("%s: %.60q is not a time such as 2006-01-02T15:04:05Z", name, text)
	}
	return t, nil
}

func number(values url.Values, name string, least, most int64) (*int64, error) {
	text := values.Get(name)
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return nil, fmt.Errorf("%s: %.40q is not a whole number from %d to %d", name, text, least, most)
	}
	return &n, nil
}

// arguments returns the arguments of journalctl. Each value is in one argument with its option, so
// that a value cannot become an option.
func (q query) arguments() []string {
	args := []string{"--utc", "--no-pager", "--quiet", "--output=short-precise"}
	if !q.since.IsZero() {
		args = append(args, "--since="+q.since.UTC().Format(time.DateTime))
	}
	if !q.until.IsZero() {
		args = append(args, "--until="+q.until.UTC().Format(time.DateTime))
	}
	if q.tailLines != nil {
		args = append(args, "--lines="+strconv.FormatInt(*q.tailLines, 10))
	}
	for _, s := range q.services {
		args = append(args, "--unit="+s)
	}
	if q.pattern != "" {
		args = append(args, "--grep="+q.pattern)
	}
	if q.boot != nil {
		args = append(args, "--boot="+strconv.FormatInt(*q.boot, 10))
	}
	return args
}

func (h *Handler) query(w http.ResponseWriter, r *http.Request) {
	if !h.cfg.Query {
		http.Error(w, "log queries are disabled (enableSystemLogQuery)", http.StatusForbidden)
		return
	}
	q, err := parse(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if q.file != "" {
		h.serveFirst(w, r, q.file)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	out := &counted{w: w}
	err = h.cfg.Journal(ctx, q.arguments(), out)
	if out.n > 0 {
		return // an error text would look like a line of the log
	}
	if len(q.services) == 1 {
		name := q.services[0]
		h.serveFirst(w, r, name, name+".log", name+"/"+name+".log")
		return
	}
	if err != nil {
		http.Error(w, "the journal: "+err.Error(), http.StatusInternalServerError)
	}
}

func (h *Handler) serveFirst(w http.ResponseWriter, r *http.Request, names ...string) {
	for _, name := range names {
		log, info, err := h.open(name)
		if err != nil {
			continue
		}
		defer log.Close()
		if info.Mode().IsRegular() {
			serve(w, r, log, info)
			return
		}
	}
	http.Error(w, "log not found", http.StatusNotFound)
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
