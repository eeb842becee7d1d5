package nodelogs

import (
	"cmp"
	"errors"
	"fmt"
	"github.com/podwright/podwright/internal/fields"
	"html"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Config configures a Handler.
type Config struct {
	// Root is the folder of the logs, such as /var/log. Required.
	Root string
	// Prefix is the path prefix of the handler. Default: "/logs/".
	Prefix string
	// Query allows queries (enableSystemLogQuery). Without it they are refused.
	Query bool
	// Journal reads the journal. Default: the program journalctl.
	Journal Journal
}

// Handler serves logs. Create it with New. It is safe for concurrent use.
type Handler struct {
	cfg     Config
	timeout time.Duration // of a query
	running atomic.Int32  // queries of services in progress
}

// New returns a handler. It opens the folder at each request, so the folder may be created later.
func New(cfg Config) (*Handler, error) {
	fields.Default(&cfg.Prefix, "/logs/")
	fields.Default(&cfg.Journal, journalctl)
	return &Handler{cfg: cfg, timeout: queryTimeout}, fields.Required("nodelogs: Config.Root", cfg.Root)
}

// ServeHTTP serves a file, the list of a folder, or the result of a query.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, h.cfg.Prefix)
	if !ok && r.URL.Path+"/" != h.cfg.Prefix {
		http.NotFound(w, r)
		return
	}
	if h.query(w, r, name) {
		return
	}
	log, info, err := h.open(strings.TrimSuffix(name, "/"))
	if err != nil {
		refuse(w, err)
		return
	}
	defer log.Close()
	if !info.IsDir() {
		serve(w, r, log, info)
		return
	}
	if !strings.HasSuffix(r.URL.Path, "/") { // the list has relative links
		http.Redirect(w, r, r.URL.Path+"/", http.StatusMovedPermanently)
		return
	}
	list(w, log)
}

var errKind = errors.New("is neither a file nor a folder")

// open opens a file or folder below the root.
func (h *Handler) open(name string) (*os.File, os.FileInfo, error) {
	root, err := os.OpenRoot(h.cfg.Root)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	log, err := root.OpenFile(cmp.Or(name, "."), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := log.Stat()
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = errKind
	}
	if err != nil {
		_ = log.Close()
		return nil, nil, err
	}
	return log, info, nil
}

func serve(w http.ResponseWriter, r *http.Request, log *os.File, info os.FileInfo) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	http.ServeContent(w, r, "", info.ModTime(), reader{r.Context(), log})
}

func refuse(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		http.Error(w, "log not found", http.StatusNotFound)
	default: // the error must not reveal that a link leads outside
		http.Error(w, "this log cannot be read", http.StatusForbidden)
	}
}

func list(w http.ResponseWriter, folder *os.File) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	io.WriteString(w, "<!doctype html>\n<pre>\n")
	for {
		entries, err := folder.ReadDir(256)
		for _, e := range entries {
			name := e.Name()
			if e.IsDir() {
				name += "/"
			}
			fmt.Fprintf(w, "<a href=\"./%s\">%s</a>\n", (&url.URL{Path: name}).EscapedPath(), html.EscapeString(name))
		}
		if err != nil {
			break
		}
	}
	io.WriteString(w, "</pre>\n")
}
