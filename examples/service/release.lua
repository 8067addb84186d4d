-- For wrk: wrk -t2 -c16 -d30 --latency -s release.lua http://127.0.0.1:8000/release
wrk.method = "POST"
wrk.body = '{"count": "people"}'
wrk.headers["Content-Type"] = "application/json"
