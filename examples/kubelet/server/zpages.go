package server

import (
	"fmt"
	"maps"
	"mime"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The pages /flagz (KEP-4828) and /statusz (KEP-4827) are text, one "name=value" per line, or JSON
// for the media type application/json;as=Flagz;v=v1beta1;g=config.k8s.io. The types are copies of
// k8s.io/apiserver's, which would link the clientset.

const zpagesGroup = "config.k8s.io"

// zpagesVersions are the supported versions. true means deprecated.
var zpagesVersions = map[string]bool{"v1alpha1": true, "v1beta1": false}

type flagzPage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Flags             map[string]string `json:"flags,omitempty"`
}

type statuszPage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	StartTime         metav1.Time `json:"startTime"`
	UptimeSeconds     int64       `json:"uptimeSeconds"`
	GoVersion         string      `json:"goVersion"`
	BinaryVersion     string      `json:"binaryVersion"`
	EmulationVersion  string      `json:"emulationVersion,omitempty"`
	Paths             []string    `json:"paths"`
}

// flagz serves the flags. It returns nil without Flags.
func (c *APIConfig) flagz() http.Handler {
	if c.Flags == nil {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		flags := c.Flags()
		zpage(w, r, "Flagz", func(is metav1.TypeMeta, named metav1.ObjectMeta) any { return flagzPage{is, named, flags} }, func() string {
			var b strings.Builder
			for _, name := range slices.Sorted(maps.Keys(flags)) {
				fmt.Fprintf(&b, "%s=%s\n", name, flags[name])
			}
			return b.String()
		})
	})
}

// statusz serves version, start time and paths. It returns nil without Version.
func (c *APIConfig) statusz(paths []string) http.Handler {
	if c.Version == "" {
		return nil
	}
	began, goVersion := time.Now(), "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		goVersion = info.GoVersion
	}
	emulated, _, _ := strings.Cut(strings.TrimPrefix(c.Version, "v"), "+")
	if parts := strings.Split(emulated, "."); len(parts) > 2 {
		emulated = parts[0] + "." + parts[1]
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		up := time.Since(began).Truncate(time.Second)
		zpage(w, r, "Statusz", func(is metav1.TypeMeta, named metav1.ObjectMeta) any {
			return statuszPage{is, named, metav1.NewTime(began), int64(up / time.Second), goVersion, c.Version, emulated, paths}
		}, func() string {
			return fmt.Sprintf("Started: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\nEmulation version: %s\nPaths: %s\n",
				began.UTC().Format(time.UnixDate), int(up.Hours()), int(up.Minutes())%60, int(up.Seconds())%60, goVersion, c.Version, emulated, strings.Join(paths, " "))
		})
	})
}

func zpage(w http.ResponseWriter, r *http.Request, kind string, object func(metav1.TypeMeta, metav1.ObjectMeta) any, text func() string) {
	version, ok := negotiate(r.Header.Get("Accept"), kind)
	switch {
	case !ok:
		http.Error(w, fmt.Sprintf("available formats: text/plain; application/json;as=%s;v=v1beta1;g=%s", kind, zpagesGroup), http.StatusNotAcceptable)
	case version == "":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "\nkubelet %s\nFor debugging only. Names and format may change; do not parse this page.\n\n%s", strings.ToLower(kind), text())
	default:
		if zpagesVersions[version] {
			w.Header().Set("Warning", fmt.Sprintf(`299 - "version %s of this page is deprecated; request v1beta1"`, version))
		}
		writeJSON(w, object(metav1.TypeMeta{Kind: kind, APIVersion: zpagesGroup + "/" + version}, metav1.ObjectMeta{Name: "kubelet"}))
	}
}

// negotiate returns the requested version of a kind, or "" for text. The first supported format
// counts. ok is false if none is supported.
func negotiate(accept, kind string) (version string, ok bool) {
	if strings.TrimSpace(accept) == "" {
		return "", true
	}
	for one := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(one)
		if err != nil {
			continue
		}
		switch media {
		case "text/plain", "text/*", "*/*":
			if params["as"] == "" {
				return "", true
			}
		case "application/json":
			_, known := zpagesVersions[params["v"]]
			if known && params["g"] == zpagesGroup && params["as"] == kind {
				return params["v"], true
			}
		}
	}
	return "", false
}
