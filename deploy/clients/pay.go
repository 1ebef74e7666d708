// Makes one payment through Sluice, and repeats it until its outcome is known: `go run pay.go URL TOKEN-FILE BODY-FILE`.
// It needs nothing but Go.
//
// The requestId is in the body. It is stored before the first attempt, and no attempt uses another one: then the payment
// happens at most once, whatever fails. The exit code is 0 if it was executed, 3 if it was not, 4 if people must look.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"
)

const (
	patience = 10 * time.Minute
	pause    = 2 * time.Second
)

type answer struct {
	status     int
	outcome    string
	retryAfter time.Duration
	body       map[string]json.RawMessage
}

var client = &http.Client{Timeout: 3 * time.Minute}

// attempt sends the call once; it returns nil where no answer came.
func attempt(url, token string, body []byte) *answer {
	request, err := http.NewRequest(http.MethodPost, url+"/v2/wallets/swaps", bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Prefer", "wait=20")
	response, err := client.Do(request)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	got := &answer{status: response.StatusCode, outcome: response.Header.Get("Sluice-Outcome"), retryAfter: pause}
	if json.NewDecoder(response.Body).Decode(&got.body) != nil {
		return nil
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		got.retryAfter = time.Duration(seconds) * time.Second
	}
	return got
}

// code returns the gate's own code, or the payments API's.
func (a *answer) code() string {
	var text string
	var object struct{ Code string }
	if json.Unmarshal(a.body["error"], &text) != nil && json.Unmarshal(a.body["error"], &object) == nil {
		return object.Code
	}
	return text
}

// isFinal says whether a repeat would get the same answer: the call, the rules or what is known must change first.
func (a *answer) isFinal() bool {
	switch a.status {
	case 401, 408, 429:
		return false
	case 409:
		code := a.code()
		return code == "OUTCOME_UNKNOWN" || code == "OUTCOME_ABANDONED" || code == "REQUEST_ID_SPENT"
	}
	return a.status >= 400 && a.status < 500 && a.outcome != "held"
}

func pay(url, token string, body []byte) int {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		got := attempt(url, token, body)
		switch {
		case got == nil:
			// Nobody knows what became of it. The same requestId is always safe, a new one never is.
			time.Sleep(pause)
			continue
		case got.outcome == "executed":
			record, _ := json.Marshal(got.body)
			fmt.Println("executed", string(record))
			return 0
		case got.isFinal() && got.outcome == "not-executed":
			fmt.Println("not executed:", got.code())
			return 3
		case got.isFinal():
			fmt.Printf("unknown (%s): ask the operators of the gate; never pay under another requestId\n", got.code())
			return 4
		case got.outcome == "held":
			fmt.Println("waits for approval")
		}
		time.Sleep(got.retryAfter)
	}
	fmt.Println("still open: repeat this command later, with the same body")
	return 4
}

func read(name string) []byte {
	content, err := os.ReadFile(name)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return bytes.TrimSpace(content)
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: pay URL TOKEN-FILE BODY-FILE")
		os.Exit(2)
	}
	os.Exit(pay(os.Args[1], string(read(os.Args[2])), read(os.Args[3])))
}
