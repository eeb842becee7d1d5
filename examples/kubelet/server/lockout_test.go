package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/examples/kubelet/server/auth"
)

// withUser serves requests as those of a user, without authentication.
func withUser(name string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(auth.WithUser(r.Context(), auth.User{Username: name})))
	})
}

// A refused request ends its connection at once, although the client sends no body: the next
// request of the connection is not served.
func TestRefusedRequestEndsItsConnection(t *testing.T) {
	door, err := auth.New(auth.Config{NodeName: "n", Mode: auth.AlwaysAllow})
	require.NoError(t, err)
	ways(t)["ServeAPI"].served(t, door.Handler(api(t, nil)), func(t *testing.T, dial func() net.Conn) {
		for head, code := range map[string]int{
			"POST /exec/a/b/c HTTP/1.1\r\nHost: n\r\nContent-Length: 1000\r\n\r\n":                     http.StatusUnauthorized,
			"POST /exec/a/b/c HTTP/1.1\r\nHost: n\r\nTransfer-Encoding: chunked\r\n\r\n":               http.StatusUnauthorized,
			"POST /run/a/b/c HTTP/1.1\r\nHost: n\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n": http.StatusUnauthorized,
			"GET /pods HTTP/1.1\r\nHost: n\r\n\r\n":                                                    http.StatusUnauthorized,
		} {
			conn, began := dial(), time.Now()
			_, err := io.WriteString(conn, head)
			require.NoError(t, err)
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			require.Equal(t, code, response.StatusCode, head)
			_, err = io.Copy(io.Discard, conn)
			require.NoError(t, err, head)
			require.Less(t, time.Since(began), 2*time.Second, head)
		}
	})
}

// An authorized request may take longer than the limit of other requests.
func TestAuthorizedRequestsMayTakeLong(t *testing.T) {
	h := api(t, func(c *APIConfig) {
		c.Containers = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(time.Hour):
				fmt.Fprint(w, "after an hour")
			case <-r.Context().Done():
			}
		})
	})
	for name, h := range map[string]http.Handler{"with a user": withUser("jane", h), "anonymous": withUser(auth.Anonymous, h)} {
		t.Run(name, func(t *testing.T) {
			ways(t)["ServeAPI"].served(t, h, func(t *testing.T, dial func() net.Conn) {
				conn := dial()
				send(t, conn, "/containerLogs/ns/p/c")
				response, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				body, err := io.ReadAll(response.Body)
				require.NoError(t, err)
				require.Equal(t, "after an hour", string(body))
			})
		})
	}
}

// addressed is a connection of a client address. It records its end.
type addressed struct {
	net.Conn
	from  string
	ended bool
}

func (a *addressed) RemoteAddr() net.Addr { return named(a.from + ":1") }
func (a *addressed) Close() error         { a.ended = true; return nil }

func (a *addressed) Read(p []byte) (int, error) { return len(p), nil }

func ended(conn *metered) bool { return conn.Conn.(*addressed).ended }

type named string

func (named) Network() string  { return "tcp" }
func (n named) String() string { return string(n) }

// Which connection ends to make room for another one.
func TestRoomForConnections(t *testing.T) {
	const strange, busy, user, userBusy = "strange", "strange, busy", "user", "user, busy"
	for _, c := range []struct {
		name   string
		open   []string // kinds, from the oldest one
		from   []string // client addresses; default: 192.0.2.1
		newest string
		ends   int  // index of the connection that ends; -1 without one
		ok     bool // the newest one is served
	}{
		{"room", []string{busy, user}, nil, strange, -1, true},
		{"the oldest without a user", []string{user, busy, strange, strange}, nil, strange, 1, true},
		{"busy ones of users are kept", []string{userBusy, userBusy, busy, busy, busy}, nil, strange, 2, true},
		{"the address with the most", []string{busy, busy, busy}, []string{"198.51.100.1", "192.0.2.1", "192.0.2.1"}, strange, 1, true},
		{"one of each address", []string{strange, busy, busy}, []string{"198.51.100.1", "198.51.100.2", "198.51.100.3"}, strange, 0, true},
		{"a user beside strangers", []string{busy, busy, userBusy}, nil, userBusy, -1, true},
		{"idle user", []string{userBusy, user, busy}, nil, userBusy, 1, true},
		{"only busy users", []string{userBusy, userBusy, strange}, nil, userBusy, -1, false},
	} {
		all := &connections{limits: limits{connections: 3, authenticated: 2}, open: map[net.Conn]connection{}}
		connect := func(kind, from string) (*metered, bool) {
			at := &addressed{from: from}
			conn, served := &metered{Conn: at, all: all}, true
			all.changed(conn, http.StateNew)
			if kind != strange {
				all.changed(conn, http.StateActive)
			}
			if kind == user || kind == userBusy {
				for range 2 { // each request
					served = served && all.authenticated(conn)
				}
			}
			if kind == user {
				all.changed(conn, http.StateIdle)
			}
			return conn, served
		}
		var open []*metered
		for i, kind := range c.open {
			from := "192.0.2.1"
			if c.from != nil {
				from = c.from[i]
			}
			conn, ok := connect(kind, from)
			require.True(t, ok, c.name)
			open = append(open, conn)
		}
		newest, ok := connect(c.newest, "203.0.113.1")
		require.Equal(t, c.ok, ok, c.name)
		require.False(t, ended(newest), c.name)
		for i, conn := range open {
			require.Equal(t, i == c.ends, ended(conn), "%s: %d", c.name, i)
		}
		for _, conn := range append(open, newest) {
			all.changed(conn, http.StateClosed)
		}
		require.Empty(t, all.open)
	}
}

// Large requests before authentication end at a limit of their sum, the largest first. Other
// connections stay, and so do large requests of users.
func TestBoundedMemoryBeforeAuthentication(t *testing.T) {
	all := &connections{limits: limits{connections: 100, authenticated: 2, received: 1 << 20}, open: map[net.Conn]connection{}}
	open := func(size int) *metered {
		conn := &metered{Conn: &addressed{from: "192.0.2.1"}, all: all}
		all.changed(conn, http.StateNew)
		all.changed(conn, http.StateActive)
		_, err := conn.Read(make([]byte, size))
		require.NoError(t, err)
		return conn
	}
	small, user, next, large := open(1000), open(1), open(500<<10), open(600<<10)
	require.True(t, ended(large))
	require.False(t, ended(next))

	require.True(t, all.authenticated(user))
	_, _ = user.Read(make([]byte, 10<<20))
	all.changed(next, http.StateIdle)
	last := open(600 << 10)
	for _, conn := range []*metered{small, user, next, last} {
		require.False(t, ended(conn))
	}
}

// While clients without credentials use all their connections, a client with a user is served, and
// keeps a request that takes long.
func TestStrangersDoNotLockOutUsers(t *testing.T) {
	is := ways(t)["ServeAPI"]
	if testing.Short() {
		t.Skip("makes a thousand handshakes")
	}
	release := make(chan struct{})
	h := withUser("jane", api(t, func(c *APIConfig) {
		c.Containers = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { <-release; fmt.Fprint(w, "ok") })
	}))
	is.served(t, h, func(t *testing.T, dial func() net.Conn) {
		conn := dial()
		send(t, conn, "/containerLogs/ns/p/c")
		for range is.most + 100 {
			stranger := dial()
			_, err := io.WriteString(stranger, "POST /exec/a/b/c HTTP/1.1\r\nHost: n\r\nContent-Le")
			require.NoError(t, err)
		}
		readResponse(t, dial())
		close(release)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, "ok", string(body))
	})
}
