package server

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func secure(t *testing.T) *tls.Config {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
}

// A client that sends its handshake or its headers byte by byte is disconnected after 30 s, and
// delays no other client.
func TestSlowHandshakesAndHeaders(t *testing.T) {
	is := ways(t)["ServeAPI"]
	// The beginning of a handshake, and of a request after one.
	for what, drops := range map[string]string{"handshake": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "headers": "GET /healthz HTTP/1.1\r\nHost: n\r\nX-A: " + strings.Repeat("a", 100)} {
		t.Run(what, func(t *testing.T) {
			is.served(t, api(t, nil), func(t *testing.T, dial func() net.Conn) {
				slow := make([]net.Conn, 50)
				for i := range slow {
					slow[i] = dial()
					if what == "handshake" {
						slow[i] = slow[i].(*tls.Conn).NetConn()
					}
				}
				began, gone := time.Now(), 0
				for i := 0; gone < len(slow); i++ {
					gone = 0
					for _, conn := range slow {
						if _, err := io.WriteString(conn, string(drops[i%len(drops)])); err != nil {
							gone++
						}
					}
					if i%5 == 0 {
						readResponse(t, dial())
					}
					time.Sleep(time.Second)
				}
				require.LessOrEqual(t, time.Since(began), headerTimeout+5*time.Second)
			})
		})
	}
}

// blocking holds selected requests, even after their clients disconnect, and counts them.
type blocking struct {
	running, peak, total atomic.Int64
	release              chan struct{}
}

func (b *blocking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/held" {
		fmt.Fprint(w, "ok")
		return
	}
	b.total.Add(1)
	now := b.running.Add(1)
	for peak := b.peak.Load(); now > peak && !b.peak.CompareAndSwap(peak, now); peak = b.peak.Load() {
	}
	<-b.release
	b.running.Add(-1)
}

func multiplexed(t *testing.T, address string) (net.Conn, *http2.Framer) {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.Equal(t, "h2", conn.ConnectionState().NegotiatedProtocol)
	_, err = io.WriteString(conn, http2.ClientPreface)
	require.NoError(t, err)
	framer := http2.NewFramer(conn, conn)
	require.NoError(t, framer.WriteSettings())
	return conn, framer
}

func requestHeaders(path string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "n"}, {":path", path}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // into memory
	}
	return b.Bytes()
}

// A client that starts and resets requests over and over (CVE-2023-44487) has no more running
// requests than the limit, and is disconnected. Other clients are served.
func TestResetFlood(t *testing.T) {
	held := &blocking{release: make(chan struct{})}
	dial, _ := serving(t, held)
	address := dial().RemoteAddr().String()
	var clients sync.WaitGroup
	for range 3 {
		conn, framer := multiplexed(t, address)
		clients.Go(func() {
			var calm atomic.Bool
			read := make(chan struct{})
			go func() {
				defer close(read)
				for {
					frame, err := framer.ReadFrame()
					if err != nil {
						return
					}
					if away, ok := frame.(*http2.GoAwayFrame); ok && away.ErrCode == http2.ErrCodeEnhanceYourCalm {
						calm.Store(true)
					}
				}
			}()
			sent := 0
			for id := uint32(1); id < 1<<20; id += 2 {
				err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: requestHeaders("/held"), EndStream: true, EndHeaders: true})
				if err == nil {
					err = framer.WriteRSTStream(id, http2.ErrCodeCancel)
				}
				if err != nil {
					break
				}
				sent++
			}
			<-read
			_ = conn.Close()
			if sent >= 1<<19 || !calm.Load() {
				t.Errorf("after %d requests: ENHANCE_YOUR_CALM: %t", sent, calm.Load())
			}
		})
	}
	for range 20 {
		readResponse(t, dial())
	}
	clients.Wait()
	readResponse(t, dial())
	require.LessOrEqual(t, held.peak.Load(), int64(3*maxConcurrent))
	require.LessOrEqual(t, held.total.Load(), int64(3*maxConcurrent))
	close(held.release)
}

// Invalid or endless frames end only their own connection.
func TestInvalidFrames(t *testing.T) {
	dial, _ := serving(t, api(t, nil))
	address := dial().RemoteAddr().String()
	for what, send := range map[string]func(f *http2.Framer, conn net.Conn) error{
		"rubbish": func(_ *http2.Framer, conn net.Conn) error {
			_, err := conn.Write(bytes.Repeat([]byte{0xff}, 1<<16))
			return err
		},
		"endless headers": func(f *http2.Framer, _ net.Conn) error { // CVE-2023-45288
			err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: requestHeaders("/pods")})
			for err == nil {
				err = f.WriteContinuation(1, false, bytes.Repeat([]byte("\x00\x01a\x01b"), 2000))
			}
			return nil
		},
		"a body on stream 0": func(f *http2.Framer, _ net.Conn) error {
			f.AllowIllegalWrites = true
			return f.WriteData(0, true, []byte("x"))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel() // each takes a second
			conn, framer := multiplexed(t, address)
			sent := make(chan error, 1)
			go func() { sent <- send(framer, conn) }()
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
			_, err := io.Copy(io.Discard, conn)
			require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "the server has closed the connection")
			_ = conn.Close()
			<-sent
			readResponse(t, dial())
		})
	}
}

// A request that is too large is refused, and the client's next request is served.
func TestTooLargeRequests(t *testing.T) {
	dial, _ := serving(t, api(t, func(c *APIConfig) { c.Containers = new(reached).handler(t) }))
	huge := strings.Repeat("a", 900<<10)
	for path, code := range map[string]int{
		"/pods?" + huge:                            http.StatusOK, // the parameter is ignored
		"/pods?" + huge + huge:                     http.StatusRequestHeaderFieldsTooLarge,
		"/pods?" + strings.Repeat("&", 900<<10):    http.StatusOK,
		"/" + huge:                                 http.StatusNotFound,
		"/statusz/pods/" + huge + "/p":             http.StatusNotFound,
		"/containerLogs/ns/" + huge + "/c":         http.StatusOK, // the fake has every pod
		"/containerLogs/ns/p/c?limitBytes=" + huge: http.StatusBadRequest,
	} {
		conn := dial()
		_, err := io.WriteString(conn, getRequest(path))
		if code != http.StatusRequestHeaderFieldsTooLarge { // otherwise the server may have closed the connection meanwhile
			require.NoError(t, err, "%.60s", path)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, "%.60s", path)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		require.Equal(t, code, response.StatusCode, "%.60s", path)
		if code != http.StatusRequestHeaderFieldsTooLarge { // otherwise the connection has ended
			readResponse(t, conn)
		}
	}
	readResponse(t, dial())
}
