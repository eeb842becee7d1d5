// Applets replaces programs that the images of upstream's suite have and Debian's busybox lacks.
// The name of the program selects one:
//
//	nginx   writes /var/run/nginx.pid and serves a page on port 80
//	curl    makes a GET request, with the flags that the suite uses
//	nmeter  prints the time of day in UTC with milliseconds
//	bash    executes sh
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	var err error
	switch name := filepath.Base(os.Args[0]); name {
	case "nginx":
		err = nginx()
	case "curl":
		err = curl(os.Args[1:], os.Stdout)
	case "nmeter":
		fmt.Println(time.Now().UTC().Format("15:04:05.000"))
	case "bash":
		err = syscall.Exec("/bin/sh", append([]string{"sh"}, os.Args[1:]...), os.Environ())
	default:
		err = fmt.Errorf("unknown program %q", name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, filepath.Base(os.Args[0])+":", err)
		os.Exit(1)
	}
}

func nginx() error {
	if err := os.MkdirAll("/var/run", 0o755); err != nil {
		return err
	}
	if err := os.WriteFile("/var/run/nginx.pid", []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return err
	}
	return http.ListenAndServe(":80", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "<h1>Welcome to nginx!</h1>")
	}))
}

// request is a parsed command line of curl.
type request struct {
	url, output, format string
	headers, insecure   bool
	connect, total      time.Duration
}

func parseCurl(args []string) (request, error) {
	r := request{connect: 5 * time.Minute, total: time.Hour}
	for i := 0; i < len(args); i++ {
		var err error
		value := func() string {
			if i++; i < len(args) {
				return args[i]
			}
			err = fmt.Errorf("%s: no value", args[i-1])
			return ""
		}
		seconds := func() time.Duration {
			text := value()
			d, parseErr := time.ParseDuration(text + "s")
			if parseErr != nil && err == nil {
				err = fmt.Errorf("%s: %w", args[i-1], parseErr)
			}
			return d
		}
		switch arg := args[i]; arg {
		case "-g", "-q", "-s", "--silent": // without effect here
		case "-i":
			r.headers = true
		case "-k":
			r.insecure = true
		case "-o":
			r.output = value()
		case "-w":
			r.format = value()
		case "--connect-timeout":
			r.connect = seconds()
		case "--max-time":
			r.total = seconds()
		default:
			if strings.HasPrefix(arg, "-") || r.url != "" {
				return r, fmt.Errorf("unsupported argument %q", arg)
			}
			if r.url = arg; !strings.Contains(arg, "://") {
				r.url = "http://" + arg
			}
		}
		if err != nil {
			return r, err
		}
	}
	if r.url == "" {
		return r, fmt.Errorf("no URL")
	}
	return r, nil
}

func curl(args []string, stdout io.Writer) error {
	r, err := parseCurl(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.total)
	defer cancel()
	get, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return err
	}
	get.Header.Set("User-Agent", "curl")
	client := http.Client{
		Transport: &http.Transport{
			DialContext:     (&net.Dialer{Timeout: r.connect}).DialContext,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: r.insecure},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(get)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	out := stdout
	if r.output != "" {
		file, err := os.OpenFile(r.output, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
		if err != nil {
			return err
		}
		defer file.Close()
		out = file
	}
	if r.headers {
		fmt.Fprintf(out, "%s %s\r\n", response.Proto, response.Status)
		if err := response.Header.Write(out); err != nil {
			return err
		}
		fmt.Fprint(out, "\r\n")
	}
	if _, err := io.Copy(out, response.Body); err != nil {
		return err
	}
	fmt.Fprint(stdout, strings.ReplaceAll(r.format, "%{http_code}", strconv.Itoa(response.StatusCode)))
	return nil
}
